#!/bin/sh
# Man pages out of the programs' own --help, so that they cannot drift from the code.
#   docs/make-man.sh sluice|sluice-engine|sluice-worker PROGRAM > page
set -eu
name=$1 program=$2
version=$("$program" --version 2>/dev/null | sed 's/.* //')

escape() { sed -e 's/\\/\\e/g' -e "s/^\\([.']\\)/\\\\\&\\1/" -e 's/-/\\-/g'; }
options() { # of one --help: a list of flags and what they do
	echo ".Bl -tag -width Ds"
	sed -n 's/^  \(--[^ ].*\)$/\1/p' | escape | while IFS= read -r line; do
		case $line in
		*"  "*) flag=${line%%  *}; text=${line#"$flag"}; text=$(printf '%s' "$text" | sed 's/^ *//') ;;
		*) # the left column was full: the flag and its value are the first two words
			flag=$(printf '%s' "$line" | cut -d' ' -f1,2); text=${line#"$flag"}; text=${text# } ;;
		esac
		printf '.It Cm %s\n%s\n' "$flag" "$text"
	done
	echo ".El"
}
head_of() { # section, one line
	printf '.Dd %s\n.Dt %s %s\n.Os Sluice %s\n.Sh NAME\n.Nm %s\n.Nd %s\n' "November 21, 2026" \
		"$(echo "$name" | tr a-z A-Z)" "$1" "$version" "$name" "$2"
}
case $name in
sluice)
	head_of 1 "your own chat and OpenAI-compatible API on one machine"
	printf '.Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar options\n.Sh DESCRIPTION\n'
	printf 'Runs a Sluice server and looks into its parts.\nEach command is described below; it has the options listed there.\n'
	printf 'The server itself is\n.Nm\n.Cm up :\nengine, workers and nginx from one state folder.\n.Sh COMMANDS\n'
	"$program" help | sed -n 's/^  \([a-z][a-z]*\)  *\(.*\)$/\1|\2/p' | while IFS='|' read -r command what; do
		printf '.Ss %s\n%s.\n' "$command" "$(printf '%s' "$what" | escape)"
		"$program" "$command" --help 2>/dev/null | sed -n 's/^usage: \(.*\)$/\1/p' | head -1 | escape | sed 's/^/.Dl /'
		"$program" "$command" --help 2>/dev/null | options
	done
	printf '.Sh EXIT STATUS\n0: done; 1: failed, with the reason on standard error; 2: used wrongly.\n'
	printf '.Sh SEE ALSO\n.Xr sluice-engine 8 ,\n.Xr sluice-worker 8\n'
	;;
sluice-engine)
	head_of 8 "one model on one device, behind a unix socket"
	printf '.Sh DESCRIPTION\nMaps a model, runs it on Vulkan or the CPU, and serves jobs to\n.Xr sluice-worker 8 .\n'
	printf 'Usually started by\n.Xr sluice 1\n.Cm up\nor by systemd.\n.Sh OPTIONS\n'
	"$program" --help | options
	printf '.Sh SEE ALSO\n.Xr sluice 1 ,\n.Xr sluice-worker 8\n'
	;;
sluice-worker)
	head_of 8 "the FastCGI processes of Sluice"
	printf '.Sh DESCRIPTION\nOne pool of processes: streams (one process each), short requests, or the recorder.\n'
	printf 'Usually started by\n.Xr sluice 1\n.Cm up\nor by systemd.\n.Sh OPTIONS\n'
	"$program" --help | options
	printf '.Sh SEE ALSO\n.Xr sluice 1 ,\n.Xr sluice-engine 8\n'
	;;
esac
