# Type "make" for what there is.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test build check campaign bench fmt lint packages image update release clean

# Programs, demonstration and tests share what is compiled.
export CGO_ENABLED = 0
export GOFLAGS = -trimpath -buildvcs=false -ldflags=-w

STEP ?=
NAME ?=
COUNT ?=
FOR ?=
LOAD ?=
export COUNT FOR LOAD

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  make check STEP="lint race"            some of its steps'
	@echo '  make campaign NAME=kills COUNT=2000    one campaign; also NAME="fuzz cuts", FOR=1h'
	@echo '                                         flakes, torture, kills, cuts, frames, fuzz, fleet, mutants, image-test'

demo: ## run a gateway with simulated stations to play with
	@echo "Compiling. The first time this takes a few minutes."
	@go build -o build/demo ./scripts/demo && exec build/demo

test: ## run the tests: make and Go are enough
	@go run ./scripts/check test

build: ## build the gateway for this machine: build/gatehouse
	go build -ldflags "-s -w -X main.version=$$(scripts/version)" -o build/gatehouse ./cmd/gatehouse

check: ## run all that must pass before a change is taken; it installs what it needs
	@go run ./scripts/check check $(STEP)

campaign: ## run the long tests (hours), all or by NAME
	@go run ./scripts/check campaign $(NAME)

bench: ## measure the hot paths
	go run ./scripts/bench

fmt: ## format the Go code
	scripts/fmt

lint: ## look for mistakes without running anything
	scripts/lint

packages: ## make the .deb and .tar.gz for every board: build/packages
	scripts/packages

image: ## make the image to flash, for Raspberry Pi and arm64 with UEFI: build/image
	scripts/image

update: ## pack and sign an update from the last "make image": build/gatehouse.update
	scripts/update-file build/gatehouse.update

release: ## make all that a release consists of, signed: build/release
	scripts/make-release

clean: ## remove what was built
	rm -rf build
