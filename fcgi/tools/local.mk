# tools that run: servers of the Model Context Protocol

libsluice_fcgi_a_SOURCES += \
	%D%/api_tool_groups.c \
	%D%/api_tool_runs.c \
	%D%/api_tool_servers.c \
	%D%/api_tool_sign_in.c \
	%D%/mcp.c %D%/mcp.h \
	%D%/mcp_events.c %D%/mcp_events.h \
	%D%/tool_account.c %D%/tool_account.h \
	%D%/tool_address.c %D%/tool_address.h \
	%D%/tool_fetch.c %D%/tool_fetch.h \
	%D%/tool_http.c %D%/tool_http.h \
	%D%/tool_list.c %D%/tool_list.h \
	%D%/tool_offer.c %D%/tool_offer.h \
	%D%/tool_pipe.c %D%/tool_pipe.h \
	%D%/tool_result.c %D%/tool_result.h \
	%D%/tool_sign_in.c %D%/tool_sign_in.h
