package brokertest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/internal/test/need"
)

// mosquitto prepares one for a test, which is skipped where there is none.
type mosquitto struct{ testing.TB }

// prepare prepares a Mosquitto with its files in dir. It keeps retained messages
// and sessions across a SIGKILL as well as it can: it writes them down once a second.
func (t mosquitto) prepare(dir string, o options) (*Broker, error) {
	program := need.Program(t, "mosquitto")
	addresses, err := FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		return nil, err
	}
	listener := "listener " + port + " " + host
	lines := []string{
		"per_listener_settings false",
		listener,
		"log_type all", "log_dest stderr",
		"persistence true", "persistence_location " + dir + "/", "autosave_interval 1",
	}
	if os.Getuid() == 0 {
		lines = append(lines, "user root") // who else could not read the files
	}
	more, err := t.lines(dir, o)
	if err != nil {
		return nil, err
	}
	lines = append(lines, more...)
	if o.whole != "" {
		lines = []string{strings.Replace(o.whole, "listener 8883\n", listener+"\n", 1), "persistence_location " + dir + "/", "log_type all", "log_dest stderr"}
		if os.Getuid() == 0 {
			lines = append(lines, "user root")
		}
	}
	config := filepath.Join(dir, "mosquitto.conf")
	if err := writeLines(config, lines); err != nil {
		return nil, err
	}
	return &Broker{
		Name: "mosquitto", address: addresses[0], options: o,
		args: []string{program, "-c", config}, log: filepath.Join(dir, "log"),
	}, nil
}

// lines returns the lines of mosquitto.conf(5) for the options, and writes the
// password file.
func (t mosquitto) lines(dir string, o options) (lines []string, err error) {
	if o.acl != "" {
		lines = append(lines, "acl_file "+o.acl)
	}
	if o.certificate != "" {
		lines = append(lines, "certfile "+o.certificate, "keyfile "+o.key)
	}
	if o.clientCA != "" {
		lines = append(lines, "cafile "+o.clientCA, "require_certificate true", "use_identity_as_username true")
	}
	lines = append(lines, o.lines...)
	if len(o.users) == 0 {
		return append(lines, fmt.Sprintf("allow_anonymous %t", o.clientCA == "")), nil
	}
	file := filepath.Join(dir, "passwords")
	if err := PasswordFile(t, file, o.users); err != nil {
		return nil, err
	}
	return append(lines, "allow_anonymous false", "password_file "+file), nil
}

// PasswordFile writes a password file for Mosquitto (mosquitto_passwd(1)).
func PasswordFile(t testing.TB, path string, passwords map[string]string) error {
	t.Helper()
	program := need.Program(t, "mosquitto_passwd")
	var plain []string
	for name, password := range passwords {
		plain = append(plain, name+":"+password)
	}
	if err := writeLines(path, plain); err != nil {
		return err
	}
	if out, err := exec.Command(program, "-U", path).CombinedOutput(); err != nil { //nolint:gosec,noctx // ends at once
		return fmt.Errorf("hashing the passwords for mosquitto: %w: %s", err, out)
	}
	return nil
}

func writeLines(path string, lines []string) error {
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("configuring a broker: %w", err)
	}
	return nil
}
