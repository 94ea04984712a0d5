package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// longAttacks take more than some seconds each. They run with "make check".
func longAttacks() []string {
	return []string{
		"TestAttack_commandsUnderFaults", "TestAttack_damage_revoked", "TestAttack_damagedTrialTakenBack", "TestAttack_everyFloodAtOnce",
		"TestAttack_forgottenAcknowledgement", "TestAttack_freeze", "TestAttack_frozenDisk_everyStep", "TestAttack_frozenDisk_start",
		"TestAttack_frozenDisk_watchdog", "TestAttack_groupAndHoliday", "TestAttack_killUnderLoad", "TestAttack_lateApplication", "TestAttack_log_nobodyReads",
		"TestAttack_loginFlood", "TestAttack_notice", "TestAttack_powerCutInApply", "TestAttack_powerCutInMigration",
		"TestAttack_powerCutInRestore", "TestAttack_powerCutInTakeBack", "TestAttack_queue", "TestAttack_rewrittenJournal",
		"TestAttack_rootInData", "TestAttack_streamAfterRevocation", "TestAttack_thousandFollowers", "TestAttack_unlockFlood",
		"TestAttack_updateByCloud",
	}
}

// realBinary are the tests outside of package attacktest that build or run the real binary.
// Go's cache does not know of it, so they are no part of the cached tests.
func realBinary() []string { return []string{"TestOutbox_everyCut"} }

// testSteps are the steps of "make test". Go's cache holds what has not changed, but for the
// tests of the running binary.
func testSteps() []step {
	return []step{
		{"format", formatted},
		{"vet", command(nil, "go", "vet", "./...")},
		{"packages", packageTests},
		{"binary", inOrder(buildBinary,
			goTest(nil, "-vet=off", "-count=1", timeout, "-parallel=8", "-skip="+names(longAttacks()), attacks, demo),
			goTest(nil, "-vet=off", "-count=1", timeout, "-run="+names(realBinary()), brokers))},
	}
}

// checkSteps are the steps of "make check", those first that find something most often.
func checkSteps() []step {
	setup := step{"setup", inOrder(command(nil, "scripts/setup", "image"), longAttacksExist)}
	return slices.Concat([]step{setup}, testSteps(), []step{
		{"lint", command(nil, "scripts/lint")},
		{"race", raceTests},
		{"attacks", inOrder(buildBinary, goTest(nil, "-vet=off", "-count=1", "-shuffle=on", timeout, "-parallel=4", attacks))},
		{"browser", goTest(nil, "-vet=off", "-count=1", "-shuffle=on", timeout, browser)},
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

// packageTests runs the tests of every package that needs neither a browser nor the real
// binary. They are neither shuffled nor wrapped, so that Go's cache holds.
func packageTests(ctx context.Context, r *result) error {
	list, err := packages(ctx, attacks, boards, browser, demo)
	if err != nil {
		return err
	}
	return goTest(nil, slices.Concat([]string{"-vet=off", timeout, "-skip=" + names(realBinary())}, list)...)(ctx, r)
}

// raceTests runs the tests of the packages in another order, with the race detector where
// things run at once within the process of the test. SQLite, translated from C, and what
// calculates for cryptography have no goroutines of their own: without the race detector in
// them the tests take half the time.
func raceTests(ctx context.Context, r *result) error {
	list, err := packages(ctx, attacks, boards, browser, demo)
	if err != nil {
		return err
	}
	args := []string{"-race", "-vet=off", "-count=1", "-shuffle=on", timeout}
	for _, quiet := range []string{
		"modernc.org/sqlite/lib", "modernc.org/libc", "modernc.org/memory", "golang.org/x/crypto/argon2", "golang.org/x/crypto/scrypt",
		"crypto/internal/fips140/edwards25519/...", "crypto/internal/fips140/mlkem", "crypto/internal/fips140/nistec/...",
	} {
		args = append(args, "-gcflags="+quiet+"=-race=false")
	}
	return goTest([]string{"CGO_ENABLED=1"}, slices.Concat(args, list)...)(ctx, r)
}

// containers runs the tests with Debian's own systemd. What is about the gateway alone,
// running or unable to, runs on Debian 12.
func containers(ctx context.Context, r *result) error {
	const gateway = "Backup|FailingStart|FullDisk|Install_portTaken|Kill|Port80Taken|PortInUse|Reload|Restart|SetupCode|Upgrade_neverReady|Watchdog"
	args := []string{"-tags=board", "-vet=off", "-count=1", timeout, "-parallel=4", "-skip=^Test(" + gateway + ")/^trixie$"}
	if os.Getuid() != 0 {
		args = append(args, "-exec=sudo -n env PATH="+os.Getenv("PATH")+" HOME="+os.Getenv("HOME"))
	}
	return goTest(nil, append(args, boards)...)(ctx, r)
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

// buildBinary builds the gateway for the tests that run it, as it is and with the schema of a
// version to come.
func buildBinary(ctx context.Context, r *result) error {
	folder := os.Getenv("GATEHOUSETEST_BINARIES")
	for _, tags := range []string{"", "gatehouse_nextschema"} {
		if err := command(nil, "go", "build", "-buildvcs=false", "-tags="+tags, "-o", filepath.Join(folder, "gatehouse"+tags), "./cmd/gatehouse")(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// longAttacksExist checks that each of the long attacks is there under its name.
func longAttacksExist(context.Context, *result) error {
	files, err := filepath.Glob(attacks + "/*_test.go")
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file) //nolint:gosec // of the tree
		if err != nil {
			return err
		}
		text.Write(content)
	}
	for _, name := range longAttacks() {
		if !strings.Contains(text.String(), "\nfunc "+name+"(") {
			return fmt.Errorf("there is no test %s, which scripts/check names", name)
		}
	}
	return nil
}

// names is a pattern that matches tests of exactly these names.
func names(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }

// packages lists the packages with tests, without some.
func packages(ctx context.Context, without ...string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(path string) bool {
		return slices.Contains(without, "."+strings.TrimPrefix(path, "gatehouse"))
	}), nil
}
