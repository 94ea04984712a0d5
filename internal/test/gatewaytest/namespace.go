package gatewaytest

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/test/need"
)

// inside says to the test process that it is the one in the namespaces.
const inside = "GATEHOUSETEST_INSIDE"

// InNamespaces runs the calling test again in a process with a network and a mount
// namespace of its own, as root there, and reports false in the process outside,
// whose test then ends with the other's result. So a test may cut links and fill
// disks without touching the machine, and needs no privilege where unprivileged
// user namespaces are allowed; elsewhere the test is skipped. A test that runs the binary
// inside calls [Binary] first, and one that needs more of the machine calls package need
// first: inside, nothing is skipped.
func InNamespaces(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) == t.Name() {
		runProgram(t, "ip", "link", "set", "lo", "up")
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	need.Namespaces(t)
	need.Program(t, "ip", "nft")
	var timeout time.Duration // none
	if end, ok := t.Deadline(); ok {
		timeout = time.Until(end) * 9 / 10 // real time: before the test outside ends, to tell where it stood
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+timeout.String())
	cmd.Env = append(os.Environ(), inside+"="+t.Name(), binaryVariable+"="+built.dir, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("in its namespaces: %v\n%s", err, out)
	}
	if testing.Verbose() {
		t.Logf("in its namespaces:\n%s", out)
	}
	return false
}

// runProgram runs a program to its end.
func runProgram(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// Host is another host: a network namespace that is joined to the test's own by
// one cable. It exists only inside [InNamespaces].
type Host struct {
	t    testing.TB
	Here string // our address on the cable

	device string // our end of the cable
	shaped bool
	work   chan func()
}

// NewHost makes a host. n, 0 to 255, tells several apart.
func NewHost(t testing.TB, n int) *Host {
	t.Helper()
	h := bareHost(t)
	number := strconv.Itoa(n)
	h.Here, h.device = "10.77."+number+".1", "here"+number
	var tid int
	h.Do(func() { tid = unix.Gettid() })
	runProgram(t, "ip", "link", "add", "here"+number, "type", "veth", "peer", "name", "there", "netns", strconv.Itoa(tid))
	runProgram(t, "ip", "addr", "add", h.Here+"/24", "dev", "here"+number)
	runProgram(t, "ip", "link", "set", "here"+number, "up")
	h.Command("ip", "addr", "add", "10.77."+number+".2/24", "dev", "there")
	h.Command("ip", "link", "set", "there", "up")
	h.Command("nft", "add table ip hole; add chain ip hole in { type filter hook input priority 0; }; add chain ip hole out { type filter hook output priority 0; }")
	return h
}

// bareHost makes a host without any network.
func bareHost(t testing.TB) *Host {
	t.Helper()
	h := &Host{t: t, work: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and the namespace with it
		for f := range h.work {
			f()
		}
	}()
	t.Cleanup(func() { close(h.work) })
	h.Do(func() {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("making a network namespace: %v", err)
		}
	})
	return h
}

// Do runs f on the host: sockets that it opens and programs that it starts belong
// to the host's network.
func (h *Host) Do(f func()) {
	done := make(chan struct{})
	h.work <- func() { defer close(done); f() }
	<-done
}

// Command runs a program on the host.
func (h *Host) Command(name string, args ...string) {
	h.t.Helper()
	h.Do(func() {
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil { //nolint:noctx // ends at once
			h.t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	})
}

// Vanish makes the host neither send nor receive a packet, and close nothing.
func (h *Host) Vanish() { h.Command("nft", "add rule ip hole in drop; add rule ip hole out drop") }

// Return ends Vanish.
func (h *Host) Return() { h.Command("nft", "flush chain ip hole in; flush chain ip hole out") }

// Shape returns our end of the cable a token bucket with these parameters of "tc tbf":
// with a tiny rate, what is sent to the host waits in a queue that a reset of its
// connection does not empty.
func (h *Host) Shape(parameters string) {
	h.t.Helper()
	args := append([]string{"qdisc", "replace", "dev", h.device, "root", "tbf"}, strings.Fields(parameters)...)
	if h.shaped {
		args[1] = "change" // a replacement would drop what waits
	}
	h.shaped = true
	runProgram(h.t, "tc", args...)
}
