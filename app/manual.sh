#!/usr/bin/env bash
# manual.sh PROGRAM: fovea(1), made of what --help says, on standard output.
set -euo pipefail
program=$1

# As it stands: no line is a request, no hyphen a dash.
verbatim() {
  echo .nf
  sed -E 's/\\/\\e/g; s/-/\\-/g; s/^([.'"'"'])/\\\&\1/'
  echo .fi
}

verbs() {
  "$program" --help | sed -nE '/^(Subcommands|SUBCOMMANDS):/,/^$/s/^  ([a-z]+) .*/\1/p'
}

cat <<ROFF
.TH FOVEA 1 "" "Fovea $("$program" --version)"
.SH NAME
fovea \- attention, all of it: fused, differentiable, from the command line
.SH SYNOPSIS
.B fovea
.I VERB
[\fIOPTIONS\fR]
.SH DESCRIPTION
ROFF
"$program" --help | verbatim
for verb in $(verbs); do
  echo ".SH FOVEA ${verb^^}"
  "$program" "$verb" --help | verbatim
done
