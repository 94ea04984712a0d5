package gatewaytest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"gatehouse/internal/web/adminapi/client"
)

// tortureVariable asks for the long form of the tests that have one.
const tortureVariable = "GATEHOUSETEST_TORTURE"

// Torture reports whether the long form of a test is asked for ("make campaign NAME=torture").
func Torture() bool { return os.Getenv(tortureVariable) != "" }

// Launch says how [Exec] starts the binary. Its zero value is a gateway on free
// loopback ports with its data in a temporary folder, without bounds on the unlocks of
// the one account, and with a minute for each of them.
type Launch struct {
	Data string   // data folder; "": a temporary one
	Tags string   // build tags of the binary; "": none, as it is shipped
	Env  []string // further variables, "GATEHOUSE_…=…"; they win over those that Exec sets
	Wrap []string // a program with its arguments that runs the binary, such as strace
	// Socket is the administration socket; "": admin.sock in the data folder.
	Socket string
	Log    *os.File // what becomes its stdout and stderr; nil: a file that Gateway.Log reads
}

// Program is the real binary as a process of its own. The methods of [Gateway] work
// on it, but for Stop, which it has itself.
type Program struct {
	*Gateway
	Process *exec.Cmd
	Data    string // its data folder

	launch Launch
	ended  chan struct{} // closed when the process has ended
	err    error         // of its end, once ended is closed
}

// Exec starts the binary and waits until it is ready. The process is killed when the
// test ends. Nobody has an account in it: see [Gateway.AddAccount].
func Exec(t testing.TB, launch Launch) *Program {
	t.Helper()
	if launch.Data == "" {
		launch.Data = filepath.Join(t.TempDir(), "data")
	}
	p := &Program{Gateway: &Gateway{T: t}, Data: launch.Data, launch: launch}
	if launch.Socket == "" {
		launch.Socket = filepath.Join(launch.Data, "admin.sock")
	}
	p.launch.Socket = launch.Socket
	p.Admin = client.New(launch.Socket)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Log(p.Log())
		}
	})
	p.Start()
	p.AwaitReady()
	return p
}

// Start starts the process, again after [Program.Kill] or [Program.Stop], and does not
// wait until it is ready.
func (p *Program) Start() {
	p.T.Helper()
	argv := slices.Concat(p.launch.Wrap, []string{BinaryWith(p.T, p.launch.Tags), "serve"})
	p.Process = exec.Command(argv[0], argv[1:]...) //nolint:gosec,noctx // ended by Kill
	p.Process.Env = append(os.Environ(), "GATEHOUSE_DATA="+p.Data, "GATEHOUSE_ADMIN_SOCKET="+p.launch.Socket,
		"GATEHOUSE_HTTP_LISTEN=127.0.0.1:0", "GATEHOUSE_MQTT_LISTEN=127.0.0.1:0",
		"GATEHOUSE_UNLOCK_ACCOUNT_RATE=0", "GATEHOUSE_UNLOCK_ACCOUNT_PENDING=0",
		"GATEHOUSE_UNLOCK_TTL="+farTTL.String())
	p.Process.Env = append(p.Process.Env, p.launch.Env...)
	var out io.Writer = &p.log
	if p.launch.Log != nil {
		out = p.launch.Log
	}
	p.Process.Stdout, p.Process.Stderr = out, out
	p.Process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Process.Start(); err != nil {
		p.T.Fatal(err)
	}
	process, ended := p.Process, make(chan struct{})
	p.ended = ended
	go func() { p.err = process.Wait(); close(ended) }()
}

// AwaitReady waits until the gateway says that it is ready, and learns its addresses.
func (p *Program) AwaitReady() {
	p.T.Helper()
	p.Await("the gateway is ready", func() bool {
		select {
		case <-p.ended:
			p.T.Fatalf("the gateway has ended: %v\n%s", p.err, p.Log())
		default:
		}
		return p.learn()
	})
}

// Kill ends the process at once, as a power cut does. Killing twice does no harm.
func (p *Program) Kill() {
	_ = p.Process.Process.Kill()
	<-p.ended
}

// Stop asks the process to end, waits for it and returns its error.
func (p *Program) Stop() error {
	_ = p.Process.Process.Signal(syscall.SIGTERM)
	<-p.ended
	return p.err
}

// Ended returns a channel that is closed when the process has ended.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// Resident returns the memory of the process that is resident now, and the most that
// ever was, in bytes (VmRSS and VmHWM of /proc/PID/status).
func (p *Program) Resident() (now, most int64) {
	p.T.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.Process.Process.Pid) + "/status")
	if err != nil {
		p.T.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(string(fields[1]), 10, 64)
		switch string(fields[0]) {
		case "VmRSS:":
			now = n << 10
		case "VmHWM:":
			most = n << 10
		}
	}
	return now, most
}

// Run runs the binary with other arguments against this gateway's data, and returns
// what it has printed and its exit status.
func (p *Program) Run(args ...string) (out string, status int) {
	p.T.Helper()
	cmd := exec.CommandContext(p.T.Context(), Binary(p.T), args...) //nolint:gosec // our own binary
	cmd.Env = append(os.Environ(), "GATEHOUSE_DATA="+p.Data)
	cmd.Env = append(cmd.Env, p.launch.Env...)
	text, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		p.T.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// built holds the binaries that were made for the tests of this process.
var built struct { //nolint:gochecknoglobals // one build for a process
	mu    sync.Mutex
	dir   string
	paths map[string]string // by build tags
}

// binaryVariable names a folder with binaries that are there already: [InNamespaces]
// sets it, where nothing can be built.
const binaryVariable = "GATEHOUSETEST_BINARIES"

// Binary builds the gateway as it is shipped, without the race detector, once for all
// tests of the process, and returns its path.
func Binary(t testing.TB) string {
	t.Helper()
	return BinaryWith(t, "")
}

// BinaryWith is Binary with build tags.
func BinaryWith(t testing.TB, tags string) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if path := built.paths[tags]; path != "" {
		return path
	}
	if built.paths == nil {
		built.paths = make(map[string]string)
		built.dir = os.Getenv(binaryVariable)
	}
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "gatehouse-test-") //nolint:usetesting // outlives the first test
		if err != nil {
			t.Fatal(err)
		}
		built.dir = dir
	}
	path := filepath.Join(built.dir, "gatehouse"+tags)
	if _, err := os.Stat(path); err != nil {
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-o", path, "gatehouse/cmd/gatehouse") //nolint:noctx,gosec // ends by itself
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building the gateway: %v\n%s", err, out)
		}
	}
	built.paths[tags] = path
	return path
}

// RemoveBinary removes what [BinaryWith] has built. A TestMain calls it last.
func RemoveBinary() {
	if built.dir != "" && os.Getenv(binaryVariable) == "" {
		_ = os.RemoveAll(built.dir)
	}
}
