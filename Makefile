# Type "make" for what there is.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help build demo test check bench fuzz mutants kill-campaign cloud-campaign fleet torture board-test screenshots console-frames fmt lint cross packages image image-test update release clean

FUZZTIME ?= 10m
KILLS ?= 1000

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the gateway for this machine: build/gatehouse
	CGO_ENABLED=0 go build -trimpath -buildvcs=false \
		-ldflags "-s -w -X main.version=$$(scripts/version)" -o build/gatehouse ./cmd/gatehouse

demo: ## run a gateway with simulated stations to play with
	@echo "Compiling. The first time this takes a few minutes."
	@go build -o build/demo ./scripts/demo && exec build/demo

test: ## run the tests of the packages; "make check" runs the attacks and the rest
	go test $$(go list ./... | grep -v -e /internal/test/ -e /scripts/)

check: ## run all that must pass before a change is taken
	@scripts/check

bench: ## measure the hot paths
	go run ./scripts/bench

fuzz: ## fuzz every parser for a long time (FUZZTIME=10m each)
	scripts/fuzz $(FUZZTIME)

mutants: ## change the code that guards the doors, and see its tests fail (hours)
	go run ./scripts/mutants

kill-campaign: ## kill the running gateway again and again (KILLS=1000)
	scripts/kill-campaign $(KILLS)

cloud-campaign: CUTS = 500
cloud-campaign: ## cut the way to the cloud and kill both its ends again and again (CUTS=500)
	scripts/cloud-campaign $(CUTS)

fleet: ## run 50 gateways over a cluster of brokers and kill one of them
	go run ./scripts/fleet

torture: ## run the attacks in their long form (hours)
	GATEHOUSETEST_TORTURE=1 go test -count=1 -v -timeout 6h ./internal/test/attacktest

board-test: ## install, upgrade, break and remove the package on Debian 12 and 13
	scripts/board-test

screenshots: ## take pictures of every page of the console: build/screenshots
	@mkdir -p build/screenshots
	GATEHOUSETEST_SCREENSHOTS=$(CURDIR)/build/screenshots go test -count=1 ./internal/test/consoletest

console-frames: ## measure the console with 100 stations of two locks
	GATEHOUSETEST_FRAMES=1 go test -count=1 -v -run 'TestFrames' ./internal/test/consoletest

fmt: ## format the Go code
	scripts/fmt

lint: ## look for mistakes without running anything
	scripts/lint

cross: ## build for every board: build/cross
	scripts/cross

packages: ## make the .deb and .tar.gz for every board: build/packages
	scripts/packages

image: ## make the image to flash, for Raspberry Pi and arm64 with UEFI: build/image
	scripts/image

image-test: CUTS = 300
image-test: image ## prove the image and its updates in an emulated machine, with power cuts (CUTS=300, hours)
	go run ./scripts/imagetest -cuts $(CUTS)

update: ## pack and sign an update from the last "make image": build/gatehouse.update
	scripts/update-file build/gatehouse.update

release: ## make all that a release consists of, signed: build/release
	scripts/make-release

clean: ## remove what was built
	rm -rf build
