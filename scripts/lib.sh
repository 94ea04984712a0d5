# shellcheck shell=sh
# Shared by the scripts, which source it; they have set -eu and stand in the root.

# Runs a development tool at the version pinned in scripts/tools/go.mod.
tool() {
	go tool -modfile=scripts/tools/go.mod "$@"
}

# Prints the directories with Go code of the product.
go_directories() {
	for directory in cmd internal scripts; do
		[ ! -d "$directory" ] || echo "$directory"
	done
}
