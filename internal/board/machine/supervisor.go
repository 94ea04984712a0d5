package machine

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// Supervisor is the service manager that started this process, by the protocol of
// sd_notify(3). Where none did, its methods do nothing. Safe for concurrent use.
type Supervisor struct {
	patience time.Duration
}

// NewSupervisor reads from the environment whether a service manager expects
// notifications, and removes those variables, so that child processes do not notify it.
func NewSupervisor() (*Supervisor, error) {
	patience, err := daemon.SdWatchdogEnabled(true)
	if err != nil {
		return nil, fmt.Errorf("reading the watchdog's interval: %w", err)
	}
	return &Supervisor{patience: patience}, nil
}

// Restarts reports whether a service manager started this process, which starts it again
// when it ends (Restart=always in the unit of the package).
func (s *Supervisor) Restarts() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// Patience is how long the service manager waits for a sign of life before it ends
// the process (WatchdogSec=); zero: for ever.
func (s *Supervisor) Patience() time.Duration { return s.patience }

// Ready reports that the process serves, with its status in words.
func (s *Supervisor) Ready(status string) error {
	return s.notify(daemon.SdNotifyReady, statusLine(status))
}

// Reloading reports that the configuration is being read again; Ready ends it. The
// time is that of CLOCK_MONOTONIC, which systemd 253 and later want.
func (s *Supervisor) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("reading the monotonic clock: %w", err)
	}
	return s.notify(daemon.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000), statusLine("Reading the configuration"))
}

// Stopping reports that the process is shutting down.
func (s *Supervisor) Stopping() error {
	return s.notify(daemon.SdNotifyStopping, statusLine("Stopping"))
}

// Status reports the status of the process in words (systemctl status shows it).
func (s *Supervisor) Status(words string) error { return s.notify(statusLine(words)) }

// Extend asks for that much more time to start (EXTEND_TIMEOUT_USEC, sd_notify(3)), and
// states why.
func (s *Supervisor) Extend(by time.Duration, words string) error {
	return s.notify("EXTEND_TIMEOUT_USEC="+strconv.FormatInt(by.Microseconds(), 10), statusLine(words))
}

// Alive notifies the watchdog.
func (s *Supervisor) Alive() error { return s.notify(daemon.SdNotifyWatchdog) }

func (s *Supervisor) notify(lines ...string) error {
	if _, err := daemon.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		return fmt.Errorf("notifying the service manager: %w", err)
	}
	return nil
}

// statusLine keeps the words on their one line, and short: they go in one datagram with
// what must arrive, and systemd drops what has more than 4,096 bytes.
func statusLine(words string) string {
	const most = 2000
	words = strings.Join(strings.Fields(words), " ")
	if len(words) > most {
		words = strings.ToValidUTF8(words[:most], "") + "…"
	}
	return "STATUS=" + words
}

// Sockets takes over the listening TCP sockets that the service manager holds for
// this process (sd_listen_fds(3)); none where it holds none. Call it once: the
// second call finds nothing.
func Sockets() ([]net.Listener, error) {
	listeners, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("taking over the sockets: %w", err)
	}
	var tcp []net.Listener
	for _, l := range listeners {
		switch l := l.(type) {
		case nil: // no stream socket
		case *net.TCPListener:
			tcp = append(tcp, l)
		default:
			_ = l.Close()
		}
	}
	return tcp, nil
}

// handedOver marks a path in the configuration as the name of a credential.
const handedOver = "credential:"

// credentialFolder is the name under which the unit hands the folder of credentials
// on (LoadCredential=credentials:/etc/gatehouse/credentials/): systemd puts it
// before each file's own name.
const credentialFolder = "credentials_"

// CredentialPath returns the file that a path of the configuration means: for
// "credential:NAME" the one that the service manager provides for NAME
// (systemd.exec(5), LoadCredential=), else the path itself.
func CredentialPath(path string) (string, error) {
	name, is := strings.CutPrefix(path, handedOver)
	if !is {
		return path, nil
	}
	folder := os.Getenv("CREDENTIALS_DIRECTORY")
	if folder == "" {
		return "", fmt.Errorf("%s: only systemd provides credentials, and it provides none here: name the file itself", path)
	}
	if name == "" || strings.ContainsAny(name, "/\x00") {
		return "", fmt.Errorf("%s: write credential: and the name of a file in /etc/gatehouse/credentials", path)
	}
	return folder + "/" + credentialFolder + name, nil
}

// handedOverFrom is the folder whose files the unit hands over.
const handedOverFrom = "/etc/gatehouse/credentials/"

// CredentialSource returns the file in which root keeps what a path of the configuration
// means, and whether it is a credential; any other path is its own source.
func CredentialSource(path string) (source string, credential bool) {
	name, credential := strings.CutPrefix(path, handedOver)
	if !credential {
		return path, false
	}
	return handedOverFrom + name, true
}
