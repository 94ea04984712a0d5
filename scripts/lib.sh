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

# build_gateway FILE TARGET VERSION: builds the stripped gateway for Linux on a
# TARGET: amd64, arm64, armv6 or armv7. The same tree results in the same bytes, in
# whatever folder and on whatever machine it stands. GATEHOUSE_BUILD_TAGS adds build
# tags.
build_gateway() (
	case $2 in
	armv*) export GOARCH=arm GOARM="${2#armv}" ;;
	*) export GOARCH="$2" GOAMD64=v1 GOARM64=v8.0 ;;
	esac
	GOOS=linux CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags "${GATEHOUSE_BUILD_TAGS-}" \
		-ldflags "-s -w -X main.version=$3" -o "$1" ./cmd/gatehouse
)
