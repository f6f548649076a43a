"""LiteLLM's proxy: python litellm_proxy.py --config FILE --port N ..., as its own command takes them. Of tests/api/upstream_litellm.test.mjs.

Two things that it would import and that no test needs are not installed: its gateway for tools wants an older `mcp` than other clients here, and it
leaves the gateway out where that can't be imported; and its export of costs to S3 imports Amazon's library, some 25 MB, and asks nothing of it."""
import sys
import types

sys.modules["mcp"] = None
sys.modules["boto3"] = types.ModuleType("boto3")

from litellm.proxy.proxy_cli import run_server  # noqa: E402

run_server()
