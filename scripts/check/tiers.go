package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Packages whose tests are more than tests of a package.
const (
	attacks = "./internal/test/attacktest"
	boards  = "./internal/test/boardtest"
	browser = "./internal/test/consoletest"
	brokers = "./internal/test/cloudtest"
	demo    = "./scripts/demo"
)

// timeout bounds the tests of one package. It is no measure of speed: each wait has a bound
// of its own (package await), and this one is for a test that does not end at all.
const timeout = "-timeout=40m"

// quickAttacks take a second or so each: "make test" runs them, "make check" runs all.
func quickAttacks() []string {
	return []string{
		"TestAttack_absentClient", "TestAttack_authorityKey", "TestAttack_borrowedName",
		"TestAttack_flappingDoors", "TestAttack_foreignPages", "TestAttack_forgedTime", "TestAttack_frozenDisk_changes",
		"TestAttack_lockAfterKill", "TestAttack_log_readerGone", "TestAttack_packet",
		"TestAttack_packetSize", "TestAttack_passphrase", "TestAttack_passwordFileOfTheBoard", "TestAttack_plainPageOfOurName",
		"TestAttack_presence", "TestAttack_raisedFloor", "TestAttack_rubbishBeforeReplay", "TestAttack_setupCode",
		"TestAttack_stateOfFirstBoot", "TestAttack_tokenOnFullDisk", "TestAttack_withdrawalOnFullDisk", "TestProgram",
	}
}

// everyCut takes long, and is no attack although it runs the real binary.
const everyCut = "^TestOutbox_everyCut$"

// testSteps are the steps of "make test". Go's cache holds what has not changed, but for the
// attacks on the running binary.
func testSteps() []step {
	return []step{
		{"format", formatted},
		{"vet", vetted},
		{"packages", packageTests},
		{"binary", inOrder(buildBinary(),
			goTest(nil, "-vet=off", "-count=1", timeout, "-parallel=4", "-run=^("+strings.Join(quickAttacks(), "|")+")$", attacks))},
	}
}

// checkSteps are the steps of "make check", those first that find something most often.
func checkSteps() []step {
	setup := step{"setup", command(nil, "scripts/setup", "image")}
	return slices.Concat([]step{setup}, testSteps(), []step{
		{"lint", command(nil, "scripts/lint")},
		{"race", raceTests},
		{"attacks", inOrder(buildBinary(nextSchema),
			goTest(nil, "-vet=off", "-count=1", "-shuffle=on", timeout, "-parallel=4", attacks, demo),
			goTest(nil, "-vet=off", "-count=1", timeout, "-run="+everyCut, brokers))},
		{"browser", inOrder(buildBinary(), goTest(nil, "-vet=off", "-count=1", "-shuffle=on", timeout, browser))},
		{"packaging", command(nil, "scripts/check-packages")},
		{"release", command(nil, "scripts/check-release")},
		{"containers", containers},
		{"image", command([]string{"GATEHOUSE_IMAGE_DIR=" + checkedImage}, "scripts/image")},
		{"board", emulatedBoard},
	})
}

// formatted checks the format of the Go code.
func formatted(ctx context.Context, r *result) error {
	cmd := newCommand(ctx, nil, "gofmt", "-l", "cmd", "internal", "scripts", "configs", "systemd")
	cmd.Stderr = r.log
	out, err := cmd.Output()
	if err == nil && len(out) > 0 {
		fmt.Fprintf(r.log, "%sthese files are not formatted: run make fmt\n", out)
		err = errors.New("some files are not formatted")
	}
	return err
}

// vetted runs go vet. The tests with a browser take long to compile: lint looks at them.
func vetted(ctx context.Context, r *result) error {
	list, err := packages(ctx, r, "{{.ImportPath}}", boards, browser)
	if err != nil {
		return err
	}
	return command(nil, slices.Concat([]string{"go", "vet"}, list)...)(ctx, r)
}

// packageTests runs the tests of every package but those that need a browser or attack the
// real binary. They are neither shuffled nor wrapped, so that Go's cache holds.
func packageTests(ctx context.Context, r *result) error {
	list, err := packages(ctx, r, withTests, attacks, boards, browser, demo)
	if err != nil {
		return err
	}
	args := []string{"-vet=off", timeout, "-parallel=4", "-skip=" + everyCut}
	return inOrder(buildBinary(), goTest(nil, slices.Concat(args, list)...))(ctx, r)
}

// raceTests runs the tests of the packages in another order, with the race detector where
// things run at once within the process of the test. SQLite, translated from C, and what
// calculates for cryptography have no goroutines of their own: without the race detector in
// them the tests take half the time.
func raceTests(ctx context.Context, r *result) error {
	list, err := packages(ctx, r, withTests, attacks, boards, browser, demo)
	if err != nil {
		return err
	}
	args := []string{"-race", "-vet=off", "-count=1", "-shuffle=on", timeout, "-parallel=4", "-skip=" + everyCut}
	for _, quiet := range []string{
		"modernc.org/sqlite/lib", "modernc.org/libc", "modernc.org/memory", "golang.org/x/crypto/argon2", "golang.org/x/crypto/scrypt",
		"crypto/internal/fips140/edwards25519/...", "crypto/internal/fips140/mlkem", "crypto/internal/fips140/nistec/...",
	} {
		args = append(args, "-gcflags="+quiet+"=-race=false")
	}
	return inOrder(buildBinary(), goTest([]string{"CGO_ENABLED=1"}, slices.Concat(args, list)...))(ctx, r)
}

// containers runs the tests with Debian's own systemd. What is about the gateway alone,
// running or unable to, runs on Debian 12.
func containers(ctx context.Context, r *result) error {
	const gateway = "Backup|FailingStart|FullDisk|Install_portTaken|Kill|Port80Taken|PortInUse|Reload|Restart|SetupCode|Upgrade_neverReady|Watchdog"
	return goTest(nil, "-tags=board", "-vet=off", "-count=1", timeout, "-parallel=4", "-skip=^Test("+gateway+")/^trixie$", boards)(ctx, r)
}

// checkedImage is the folder of the image that is made to be tested.
const checkedImage = "build/checked-image"

// emulatedBoard starts the image on an emulated board.
func emulatedBoard(ctx context.Context, r *result) error {
	images, err := filepath.Glob(checkedImage + "/gatehouse_*_arm64.img")
	if err != nil || len(images) != 1 {
		return fmt.Errorf("there are %d images in %s, not one: run make check STEP=\"image board\"", len(images), checkedImage)
	}
	return command(nil, "go", "run", "./scripts/imagetest", "-only", "short", "-image", images[0])(ctx, r)
}

// nextSchema is the build tag of a gateway with the schema of a version to come.
const nextSchema = "gatehouse_nextschema"

// buildBinary builds the gateway for the tests that run it, as it is and with tags. Where nothing has changed the files stay as they are, with their times: Go
// then knows that a cached result of a test that runs one still holds.
func buildBinary(tags ...string) func(context.Context, *result) error {
	build := func(ctx context.Context, r *result, tag string) error {
		path := filepath.Join(os.Getenv("GATEHOUSETEST_BINARIES"), "gatehouse"+tag)
		if err := command(nil, "go", "build", "-buildvcs=false", "-tags="+tag, "-o", path+".new", "./cmd/gatehouse")(ctx, r); err != nil {
			return err
		}
		before, _ := os.ReadFile(path) //nolint:gosec // of this tree
		after, err := os.ReadFile(path + ".new")
		if err != nil {
			return err
		}
		if bytes.Equal(before, after) {
			return nil
		}
		next := path + ".next"                                   // renamed, as the program may be running
		if err := os.WriteFile(next, after, 0o755); err != nil { //nolint:gosec // a program
			return err
		}
		return os.Rename(next, path)
	}
	return func(ctx context.Context, r *result) error {
		for _, tag := range append([]string{""}, tags...) {
			if err := build(ctx, r, tag); err != nil {
				return err
			}
		}
		return nil
	}
}

// withTests lists the packages that have tests.
const withTests = "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"

// packages lists the packages of the tree by a format of go list, without some.
func packages(ctx context.Context, r *result, format string, without ...string) ([]string, error) {
	cmd := newCommand(ctx, nil, "go", "list", "-f", format, "./...")
	cmd.Stderr = r.log
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(path string) bool {
		return slices.Contains(without, "."+strings.TrimPrefix(path, "gatehouse"))
	}), nil
}
