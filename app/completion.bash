# Completion for fovea: verbs, and the options that a verb's --help names.
_fovea() {
  local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]:-} words=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    words="$(fovea --help 2>/dev/null | sed -nE '/^(Subcommands|SUBCOMMANDS):/,/^$/s/^  ([a-z]+) .*/\1/p') --help --version"
  elif [[ $word == -* ]]; then
    local -a of=("$verb")
    [[ $verb == train && ${COMP_WORDS[2]:-} != -* && COMP_CWORD -gt 2 ]] && of+=("${COMP_WORDS[2]}")
    words=$(fovea "${of[@]}" --help 2>/dev/null | grep -oE -- '(^|[ ,])--[a-z][a-z0-9-]*' | tr -d ' ,' | sort -u)
  elif [[ $verb == train && COMP_CWORD -eq 2 ]]; then
    words=$(fovea --help 2>/dev/null | sed -nE '/^Tasks/,/^$/s/^  ([a-z]+) .*/\1/p')
  fi
  if [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  else
    compopt -o default 2>/dev/null
  fi
}
complete -F _fovea fovea
