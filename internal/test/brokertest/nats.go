package brokertest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// natsProgram returns the path of the NATS server, and builds it if need be.
func natsProgram() (string, error) {
	dir, err := root()
	if err != nil {
		return "", err
	}
	// So go test knows that another version makes a cached result worthless.
	if _, err := os.ReadFile(filepath.Join(dir, "scripts", "tools", "nats", "go.mod")); err != nil { //nolint:gosec // of the tree
		return "", fmt.Errorf("looking for the version of the NATS server: %w", err)
	}
	var stderr bytes.Buffer
	build := exec.Command(filepath.Join(dir, "scripts", "nats")) //nolint:gosec,noctx // ends by itself
	build.Stderr = &stderr
	out, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("the NATS server cannot be built: run scripts/nats and see what is missing: %w: %s", err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// newNATS prepares a NATS server by itself.
func newNATS(dir string, o options) (*Broker, error) {
	members, err := natsMembers(dir, 1, o)
	if err != nil {
		return nil, err
	}
	return members[0], nil
}

// electionPatience is how long who connects waits for the other servers to agree on who
// leads, before it is rejected (mqtt.js_api_timeout; 5 s by itself).
const electionPatience = "10s"

// NATSCluster prepares a cluster of NATS servers with their files in dir: launch them
// all, then await each, and kill them in the end. A cluster of three keeps what it was
// told while one is gone.
func NATSCluster(dir string, nodes int, with ...Option) ([]*Broker, error) {
	return natsMembers(dir, nodes, apply(with))
}

func natsMembers(dir string, nodes int, o options) ([]*Broker, error) {
	if o.acl != "" || o.clientCA != "" || o.whole != "" {
		return nil, errors.New("options of Mosquitto were given to NATS")
	}
	program, err := natsProgram()
	if err != nil {
		return nil, err
	}
	addresses, err := FreeAddresses(3 * nodes)
	if err != nil {
		return nil, err
	}
	routes, clients, mqtt := addresses[:nodes], addresses[nodes:2*nodes], addresses[2*nodes:]
	var members []*Broker
	for n := range nodes {
		name := fmt.Sprintf("nats-%d", n+1)
		lines := append(o.nats(), o.lines...)
		lines = append(lines,
			"server_name: "+name, fmt.Sprintf("listen: %q", clients[n]),
			fmt.Sprintf("jetstream { store_dir: %q }", filepath.Join(dir, name)),
			fmt.Sprintf("mqtt { listen: %q, js_api_timeout: %s, %s }", mqtt[n], electionPatience, o.natsTLS()),
		)
		if nodes > 1 {
			lines = append(lines, fmt.Sprintf("cluster { name: gatehouse, listen: %q, routes: [%s] }", routes[n], routeList(routes)))
		}
		config := filepath.Join(dir, name+".conf")
		if err := writeLines(config, lines); err != nil {
			return nil, err
		}
		members = append(members, &Broker{
			Name: name, address: mqtt[n], options: o,
			args: []string{program, "-c", config}, log: filepath.Join(dir, name+".log"),
		})
	}
	return members, nil
}

func routeList(routes []string) string {
	quoted := make([]string, len(routes))
	for i, route := range routes {
		quoted[i] = fmt.Sprintf("%q", "nats://"+route)
	}
	return strings.Join(quoted, ", ")
}

// nats returns the lines of its configuration for the options.
func (o *options) nats() (lines []string) {
	if len(o.users) == 0 {
		return nil
	}
	var users []string
	for name, password := range o.users {
		permissions := ""
		if text := o.permissions[name]; text != "" {
			permissions = ", permissions: " + text
		}
		users = append(users, fmt.Sprintf("{user: %q, password: %q%s}", name, password, permissions))
	}
	return []string{"authorization { users: [" + strings.Join(users, ", ") + "] }"}
}

func (o *options) natsTLS() string {
	if o.certificate == "" {
		return ""
	}
	return fmt.Sprintf("tls { cert_file: %q, key_file: %q }", o.certificate, o.key)
}
