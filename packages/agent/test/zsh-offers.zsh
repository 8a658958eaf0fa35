# zsh -f zsh-offers.zsh SCRIPT LINE: what an interactive zsh with the script offers for the line and a tab, one per line.
zmodload zsh/zpty || exit 1
zpty shell zsh -f -i
until_seen() {
  local text all
  while zpty -r shell text; do
    all+=$text
    [[ $all == *$1* ]] && return
  done
}
offers=$(mktemp)
zpty -w shell 'PS1=; autoload -Uz compinit; compinit -u -D; source '${(q)1}
# With one of these options it only asks what would match.
zpty -w shell 'compadd() {
  local -a found
  [[ " $* " == *" -"[OAD]* ]] || { builtin compadd -A found "$@"; print -rl -- $found >>'$offers'; }
  builtin compadd "$@"
}'
zpty -w shell 'finish() { print -r -- "<do""ne>" }; zle -N finish; bindkey "^Xe" finish; print -r -- "<rea""dy>"'
until_seen '<ready>'
zpty -w -n shell "$2"$'\t\C-xe'
until_seen '<done>'
zpty -d shell
cat $offers
rm $offers
