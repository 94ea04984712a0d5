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

# release_tool ARGUMENT…: runs scripts/release.
release_tool() {
	go run ./scripts/release "$@"
}

# Prints the files of the release keys, with colons between: those of
# GATEHOUSE_RELEASE_KEY, or .keys/release.pem, which it makes if it is not there.
release_keys() {
	[ -n "${GATEHOUSE_RELEASE_KEY-}" ] || release_tool key .keys/release.pem
	echo "${GATEHOUSE_RELEASE_KEY:-.keys/release.pem}"
}

# public_keys KEYS: prints their public halves, as an image has them.
public_keys() (
	IFS=:
	# shellcheck disable=SC2086 # one word a file
	release_tool public $1
)
