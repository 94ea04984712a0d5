//go:build board

package boardtest_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	root = "../../.." // of the tree

	// inside names the scratch folder to the process in the namespaces.
	inside = "GATEHOUSETEST_BOARDS"

	// outerNet is the network of the machine, which making packages and root file
	// systems may need, as an inherited file of that process.
	outerNet = 3
)

// scratch is a folder in memory that ends with the process.
func scratch() string { return os.Getenv(inside) }

// builds is a folder in it that everybody may write to.
func builds() string { return filepath.Join(scratch(), "builds") }

// cgroup is the control group that holds those of all containers.
func cgroup() string { return "/sys/fs/cgroup/" + filepath.Base(scratch()) }

func TestMain(m *testing.M) {
	switch {
	case os.Getuid() != 0: // every test needs root
	case scratch() == "":
		code, err := runInside()
		if err != nil {
			fmt.Fprintln(os.Stderr, "boardtest:", err)
			code = 1
		}
		os.Exit(code)
	default:
		if err := enter(); err != nil {
			fmt.Fprintln(os.Stderr, "boardtest:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// runInside runs this program again in namespaces of its own, to its end or until
// somebody interrupts it, and removes what cannot end by itself.
func runInside() (int, error) {
	runtime.LockOSThread() // the child ends with the thread that started it
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	dir, err := os.MkdirTemp("", "gatehouse-boards-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	network, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return 0, err
	}
	defer func() { _ = network.Close() }()
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"="+dir, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	cmd.ExtraFiles = []*os.File{network} // outerNet
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err = <-done:
	case s := <-interrupted:
		_ = cmd.Process.Kill() // the whole namespace with it
		<-done
		err = fmt.Errorf("ended by the signal %s", s)
	}
	err = errors.Join(err, removeCgroups(filepath.Join(cgroupRoot(), filepath.Base(dir))))
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// enter makes the namespaces fit to live in.
func enter() error {
	for _, mount := range []struct {
		what, kind, where string
		flags             uintptr
		options           string
		must              bool
	}{
		{"", "", "/", unix.MS_REC | unix.MS_PRIVATE, "", true},
		{"proc", "proc", "/proc", 0, "", true},
		{"tmpfs", "tmpfs", scratch(), 0, "mode=755", true},
		{"tmpfs", "tmpfs", "/run/systemd/nspawn", 0, "", false}, // what nspawn leaves there ends with us
	} {
		err := unix.Mount(mount.what, mount.where, mount.kind, mount.flags, mount.options)
		if err != nil && mount.must {
			return fmt.Errorf("mounting %s: %w", mount.where, err)
		}
	}
	if err := errors.Join(os.Mkdir(builds(), 0o777), os.Chmod(builds(), 0o777)); err != nil {
		return err
	}
	_ = unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH) // fails where nothing is mounted
	if err := unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""); err != nil {
		return fmt.Errorf("mounting the control groups, version 2: %w", err)
	}
	if err := os.Mkdir(cgroup(), 0o755); err != nil {
		return err
	}
	unix.CloseOnExec(outerNet)
	return exec.Command("ip", "link", "set", "lo", "up").Run()
}

// cgroupRoot finds where the machine has mounted its control groups, version 2.
func cgroupRoot() string {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "cgroup2" {
			return fields[1]
		}
	}
	return "/sys/fs/cgroup"
}

// removeCgroups removes control groups without processes.
func removeCgroups(dir string) error {
	var dirs []string
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	var errs []error
	for i := len(dirs) - 1; i >= 0; i-- {
		errs = append(errs, os.Remove(dirs[i]))
	}
	return errors.Join(errs...)
}
