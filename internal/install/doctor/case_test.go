package doctor_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// illness is something that is wrong with an otherwise healthy board, and all that
// the doctor says of it.
type illness struct {
	name string
	make func(t *testing.T, w *ward)
	want []string // complaints
	fact string   // is part of the evidence
}

const (
	stationsUnknown = "unchecked stations: only a gateway that runs knows them > "
	backupFirst     = "gatehouse backup FILE; then replace the card or disk"
)

func TestExamine_illnesses(t *testing.T) {
	names := make(map[string]bool)
	for _, list := range [][]illness{
		ofData(), ofGateway(), ofFirstBoot(), ofConfiguration(), ofPorts(), ofDisk(), ofDatabase(), ofClock(), ofCertificate(), ofService(), ofMemory(), ofCloud(),
	} {
		for _, i := range list {
			if names[i.name] {
				t.Errorf("two cases are named %q", i.name)
			}
			names[i.name] = true
			t.Run(i.name, func(t *testing.T) {
				w := healthy(t)
				i.make(t, w)
				r := w.examine(t)
				if got := complaints(r); !slices.Equal(got, i.want) {
					t.Errorf("the doctor says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(i.want, "\n"))
				}
				ill := slices.ContainsFunc(i.want, func(line string) bool {
					return strings.HasPrefix(line, "fatal ") || strings.HasPrefix(line, "warning ")
				})
				if r.Healthy == ill {
					t.Errorf("the board is healthy: %t", r.Healthy)
				}
				if facts := evidence(r); !strings.Contains(facts, i.fact) {
					t.Errorf("no evidence %q in\n%s", i.fact, facts)
				}
			})
		}
	}
}

func ofGateway() []illness {
	return []illness{
		{"condition", func(_ *testing.T, w *ward) {
			w.status.Conditions = []health.Condition{{
				Code: health.PlainHTTP, Severity: health.Warning, Summary: "It is plain", Advice: "Use TLS", Since: site.At(now().Add(-time.Hour)),
			}}
		}, []string{"warning gateway: It is plain > Use TLS"}, "gateway: plain-http since 2026-11-21 07:00:00 UTC"},
		{"not ready", func(_ *testing.T, w *ward) { w.status.Ready = false }, []string{
			"fatal gateway: The gateway is not ready to open doors > journalctl -u gatehouse -n 50",
		}, "process 812"},
		{"older version runs", func(_ *testing.T, w *ward) { w.status.Version = "1.2.2" }, []string{
			"notice gateway: The gateway that runs is version 1.2.2, and this program is 1.2.3 > systemctl restart gatehouse",
		}, ""},
		{"stopped", func(_ *testing.T, w *ward) { w.stop() }, []string{
			"fatal gateway: The gateway is stopped > systemctl start gatehouse", stationsUnknown,
		}, "gatehouse.service is inactive (dead), enabled"},
		{"switched off", func(_ *testing.T, w *ward) {
			w.stop()
			w.unit()["UnitFileState"] = "disabled"
		}, []string{
			"fatal gateway: The gateway is stopped, and does not start with the machine > systemctl enable --now gatehouse.socket gatehouse", stationsUnknown,
		}, ""},
		{"masked", func(_ *testing.T, w *ward) {
			w.stop()
			w.unit()["UnitFileState"] = "masked"
		}, []string{
			"fatal gateway: The gateway is stopped, and may not be started > systemctl unmask gatehouse; systemctl enable --now gatehouse.socket gatehouse", stationsUnknown,
		}, ""},
		{"never comes up", func(_ *testing.T, w *ward) {
			w.stop()
			w.unit()["ActiveState"], w.unit()["SubState"], w.unit()["NRestarts"] = "activating", "auto-restart", "3"
			w.outputs["journalctl UNIT=gatehouse.service _PID=1 INVOCATION_ID=1a2b --lines=20"] = "gatehouse.service: Failed at step USER\n"
		}, []string{
			"fatal gateway: The gateway does not start: systemd tries it again and again > journalctl -u gatehouse -n 50",
			"notice service: systemd had to start the gateway again > journalctl -u gatehouse -n 50; systemctl reset-failed gatehouse begins to count anew", stationsUnknown,
		}, "log: gatehouse.service: Failed at step USER"},
		{
			"log with more in it", func(_ *testing.T, w *ward) {
				w.stop()
				w.unit()["ActiveState"], w.unit()["SubState"] = "failed", "failed"
				w.outputs["journalctl _SYSTEMD_UNIT=gatehouse.service _SYSTEMD_INVOCATION_ID=1a2b --lines=20"] = "level=ERROR msg=bad\nlevel=WARN msg=setup setup_code=ABCD-1234\nlevel=INFO msg=ready\n"
			},
			[]string{"fatal gateway: The gateway has failed, and systemd has given it up > journalctl -u gatehouse -n 50; then systemctl restart gatehouse", stationsUnknown},
			"gateway: gatehouse.service is failed (failed), enabled\ngateway: log: level=ERROR msg=bad\ndata:",
		},
		{
			"log of an earlier start", func(_ *testing.T, w *ward) {
				w.stop()
				w.unit()["ActiveState"], w.unit()["SubState"], w.unit()["InvocationID"] = "failed", "failed", ""
				w.unit()["ExecMainStartTimestampMonotonic"] = micros(30*24*time.Hour - time.Minute)
				w.outputs["journalctl _SYSTEMD_UNIT=gatehouse.service"] = "old\n"
				w.outputs["journalctl _SYSTEMD_UNIT=gatehouse.service --since=@1795247940"] = `level=ERROR error="a\nb"` + "\n"
			},
			[]string{"fatal gateway: The gateway has failed, and systemd has given it up > journalctl -u gatehouse -n 50; then systemctl restart gatehouse", stationsUnknown},
			"gateway: log: level=ERROR error=\"a; b\"\ndata:",
		},
		{"comes up", func(_ *testing.T, w *ward) {
			w.stop()
			w.unit()["ActiveState"], w.unit()["SubState"] = "activating", "start"
		}, []string{"fatal gateway: The gateway is starting > wait a minute, then gatehouse doctor", stationsUnknown}, ""},
		{"deaf", func(_ *testing.T, w *ward) { w.silent = fault.New(fault.Unavailable, "no answer") }, []string{
			"fatal gateway: systemd says that the gateway runs, but it does not answer on /run/gatehouse/admin.sock > journalctl -u gatehouse -n 50; then systemctl restart gatehouse",
			stationsUnknown,
		}, ""},
		{"hanging", func(_ *testing.T, w *ward) { w.silent = context.DeadlineExceeded }, []string{
			"fatal gateway: The gateway runs but does not answer > systemctl restart gatehouse", stationsUnknown,
		}, "does not answer within 5s"},
		{"forbidden", func(_ *testing.T, w *ward) { w.silent = fault.New(fault.Forbidden, "no permission") }, []string{
			"unchecked gateway: this user may not ask the gateway on /run/gatehouse/admin.sock > sudo gatehouse doctor",
			"unchecked ports: this user may not ask the gateway which ports are its own > sudo gatehouse doctor",
			"unchecked stations: this user may not ask the gateway for them > sudo gatehouse doctor",
		}, ""},
		{"stopped without systemd", func(_ *testing.T, w *ward) {
			w.stop()
			w.withoutSystemd()
		}, []string{
			"fatal gateway: The gateway does not run > gatehouse serve",
			"notice service: systemd does not run this machine: nothing starts the gateway again when it ends > run it under a program that does", stationsUnknown,
		}, "nobody answers on /run/gatehouse/admin.sock"},
		{"deaf without systemd", func(_ *testing.T, w *ward) {
			w.silent = fault.New(fault.Unavailable, "no answer")
			w.withoutSystemd()
		}, []string{
			"fatal gateway: A gateway runs, but does not answer on its socket > name its socket with --socket, or stop the gateway and start it again: gatehouse serve",
			"notice service: systemd does not run this machine: nothing starts the gateway again when it ends > run it under a program that does", stationsUnknown,
		}, "process 812 has the data in /var/lib/gatehouse"},
		{"started by hand, and deaf", func(_ *testing.T, w *ward) {
			w.unit()["MainPID"], w.unit()["ActiveState"] = "0", "inactive"
			w.silent = fault.New(fault.Unavailable, "no answer")
		}, []string{
			"fatal gateway: A gateway runs, but does not answer on its socket > name its socket with --socket, or kill 812; systemctl restart gatehouse",
			"warning service: The gateway that runs was not started by gatehouse.service > kill 812; systemctl restart gatehouse", stationsUnknown,
		}, ""},
		{"started by hand", func(_ *testing.T, w *ward) { w.unit()["MainPID"], w.unit()["ActiveState"] = "0", "inactive" }, []string{
			"warning service: The gateway that runs was not started by gatehouse.service > kill 812; systemctl restart gatehouse",
		}, ""},
	}
}

func ofConfiguration() []illness {
	return []illness{
		{"broken while it runs", func(_ *testing.T, w *ward) { w.config = "dta = 1\nname = 2\n" }, []string{
			"warning configuration: The configuration has 2 problems, and the gateway goes on with what it had > mend what is named, check it with gatehouse serve --check, then systemctl restart gatehouse",
		}, `/etc/gatehouse/gatehouse.toml:1: unknown key "dta"`},
		{"broken while it is stopped", func(_ *testing.T, w *ward) {
			w.stop()
			w.config = "dta = 1"
		}, []string{
			"fatal gateway: The gateway is stopped > systemctl start gatehouse",
			"fatal configuration: The gateway cannot start with this configuration: 1 problem > mend what is named, check it with gatehouse serve --check, then systemctl restart gatehouse",
			"unchecked ports: the configuration, which names the ports, cannot be used > ", stationsUnknown,
			"unchecked cloud: the configuration, which says whether there is a cloud, cannot be used > ",
		}, ""},
		{"configuration unreadable", func(_ *testing.T, w *ward) {
			w.cfg.Files = func(string, []string) ([]config.File, error) { return nil, fs.ErrPermission }
		}, []string{"unchecked configuration: this user may not read the configuration > sudo gatehouse doctor"}, ""},
		{"configuration not there", func(_ *testing.T, w *ward) {
			w.cfg.Files = func(string, []string) ([]config.File, error) { return nil, errors.New("x.toml: no such file") }
		}, []string{"fatal configuration: The configuration cannot be read > gatehouse serve --check"}, "x.toml: no such file"},
		{"writable by others", func(_ *testing.T, w *ward) { w.put("/etc/gatehouse/gatehouse.toml", configText, 0o646, 0) }, []string{
			"warning configuration: Others than its owner may change the configuration > chmod go-w /etc/gatehouse/gatehouse.toml",
		}, "has mode -rw-r--rw-"},
		{"not for the gateway", func(_ *testing.T, w *ward) { w.put("/etc/gatehouse/gatehouse.toml", configText, 0o600, 0) }, []string{
			"warning configuration: The gateway's user may not read the configuration > chmod 644 /etc/gatehouse/gatehouse.toml",
		}, ""},
		{"changed", func(_ *testing.T, w *ward) {
			w.files["etc/gatehouse/gatehouse.toml"].ModTime = now().Add(-time.Hour)
		}, []string{"notice configuration: The configuration was changed after the gateway had read it > systemctl reload gatehouse"}, "the gateway read it at 2026-11-20 08:00:00 UTC"},
		{"changed and reloaded", func(_ *testing.T, w *ward) {
			w.files["etc/gatehouse/gatehouse.toml"].ModTime = now().Add(-time.Hour)
			w.unit()["StateChangeTimestampMonotonic"] = micros(30*24*time.Hour - time.Minute)
		}, nil, ""},
		{"changed and not reloaded", func(_ *testing.T, w *ward) {
			w.files["etc/gatehouse/gatehouse.toml"].ModTime = now().Add(-time.Hour)
			w.unit()["StateChangeTimestampMonotonic"], w.unit()["ReloadResult"] = micros(30*24*time.Hour-time.Minute), "exit-code"
		}, []string{
			"warning configuration: The last reload of the configuration failed, and the gateway goes on with what it had > journalctl -u gatehouse -n 50; then systemctl reload gatehouse",
			"notice configuration: The configuration was changed after the gateway had read it > systemctl reload gatehouse",
		}, ""},
		{"changed since the start", func(_ *testing.T, w *ward) {
			w.withoutSystemd()
			w.files["etc/gatehouse/gatehouse.toml"].ModTime = now().Add(-time.Hour)
		}, []string{
			"notice configuration: The configuration was changed after the gateway had started > stop the gateway and start it again: gatehouse serve",
			"notice service: systemd does not run this machine: nothing starts the gateway again when it ends > run it under a program that does",
		}, ""},
		{"from the unit's environment", func(_ *testing.T, w *ward) {
			w.unit()["Environment"] = "GOMEMLIMIT=200MiB GATEHOUSE_LOG_LEVEL=loud"
		}, []string{
			"warning configuration: The configuration has 1 problem, and the gateway goes on with what it had > mend what is named, check it with gatehouse serve --check, then systemctl restart gatehouse",
		}, "GATEHOUSE_LOG_LEVEL"},
	}
}

func ofPorts() []illness {
	squat := func(w *ward, address string, port int) {
		w.put("/proc/net/tcp", listening(address, port), 0o444, 0)
		w.put("/proc/700/comm", "mosquitto\n", 0o444, 0)
		w.link("/proc/700/fd/5", "socket:["+socketInode+"]")
	}
	const stopped = "fatal gateway: The gateway is stopped > systemctl start gatehouse"
	return []illness{
		{
			"taken", func(_ *testing.T, w *ward) {
				w.stop()
				squat(w, "00000000", 1883)
			},
			[]string{stopped, "fatal ports: Another program has the port of [::]:1883 open > stop that program, or change mqtt.listen; then systemctl restart gatehouse.socket gatehouse", stationsUnknown},
			"0.0.0.0:1883 is open in mosquitto (process 700)",
		},
		{
			"taken on one address", func(_ *testing.T, w *ward) {
				w.stop()
				squat(w, "0100007F", 1883)
			},
			[]string{stopped, "fatal ports: Another program has the port of [::]:1883 open > stop that program, or change mqtt.listen; then systemctl restart gatehouse.socket gatehouse", stationsUnknown},
			"127.0.0.1:1883 is open in mosquitto",
		},
		{"taken elsewhere", func(_ *testing.T, w *ward) {
			w.stop()
			squat(w, "0101A8C0", 8080) // 192.168.1.1, and 127.0.0.1 is wanted
		}, []string{stopped, stationsUnknown}, ""},
		{
			"taken by someone", func(_ *testing.T, w *ward) {
				w.stop()
				squat(w, "00000000", 1883)
				w.remove("/proc/700/fd/5")
			},
			[]string{stopped, "fatal ports: Another program has the port of [::]:1883 open > stop that program, or change mqtt.listen; then systemctl restart gatehouse.socket gatehouse", stationsUnknown},
			"a program that only root sees",
		},
		{"held by systemd", func(_ *testing.T, w *ward) {
			w.stop()
			squat(w, "00000000", 1883)
			w.link("/proc/1/fd/5", "socket:["+socketInode+"]")
			w.units["gatehouse.socket"]["ActiveState"] = "active"
		}, []string{stopped, stationsUnknown}, ""},
		{"held by systemd, unseen", func(_ *testing.T, w *ward) {
			w.stop()
			squat(w, "00000000", 1883)
			w.remove("/proc/700/fd/5") // only root sees who holds a socket
			w.units["gatehouse.socket"]["ActiveState"] = "active"
		}, []string{stopped, stationsUnknown}, ""},
		{"lost", func(_ *testing.T, w *ward) { w.put("/proc/net/tcp", "", 0o444, 0) }, []string{
			"fatal ports: The gateway no longer listens on 127.0.0.1:8080 > systemctl restart gatehouse",
		}, ""},
		{"not opened yet", func(_ *testing.T, w *ward) { w.config = strings.ReplaceAll(configText, ":8080", ":8081") }, []string{
			"warning ports: The gateway does not listen on 127.0.0.1:8081 > systemctl restart gatehouse",
		}, "http.listen names it"},
		{"firewall", func(_ *testing.T, w *ward) {
			w.closed = true
			w.config, w.status.Listeners = strings.ReplaceAll(configText, `tls_listen = ["[::]:443"]`, ""), w.status.Listeners[3:]
		}, []string{
			"warning ports: The gateway cannot be reached on 127.0.0.1:8080, even from this machine > check the firewall: nft list ruleset",
			"warning ports: The gateway cannot be reached on [::]:1883, even from this machine > check the firewall: nft list ruleset",
		}, "connection timed out"},
		{"socket failed", func(_ *testing.T, w *ward) {
			w.stop()
			w.units["gatehouse.socket"]["ActiveState"], w.units["gatehouse.socket"]["Result"] = "failed", "resources"
		}, []string{
			stopped, "fatal ports: systemd does not hold the ports below 1024, which the gateway may not open itself > systemctl stop gatehouse; systemctl enable --now gatehouse.socket gatehouse", stationsUnknown,
		}, "gatehouse.socket is failed, enabled; its last end was resources"},
		{"without the socket", func(_ *testing.T, w *ward) { w.units["gatehouse.socket"]["ActiveState"] = "inactive" }, []string{
			"notice ports: systemd does not hold the ports: connections are refused while the gateway restarts > systemctl stop gatehouse; systemctl enable --now gatehouse.socket gatehouse",
		}, ""},
	}
}

func ofMemory() []illness {
	return []illness{
		{"little memory", func(_ *testing.T, w *ward) {
			w.put("/proc/meminfo", "MemTotal: 500000 kB\nMemAvailable: 30000 kB\nSwapTotal: 1000 kB\nSwapFree: 0 kB\n", 0o444, 0)
		}, []string{"warning memory: The machine has little memory left > see what takes it: ps aux --sort=-rss | head"}, "1.0 MB of 1.0 MB swap used"},
		{"small board", func(_ *testing.T, w *ward) {
			w.put("/proc/meminfo", "MemTotal: 100000 kB\nMemAvailable: 20000 kB\n", 0o444, 0)
		}, []string{"warning memory: The machine has little memory left > see what takes it: ps aux --sort=-rss | head"}, "20.5 MB available of 102.4 MB"},
		{"killed for memory", func(_ *testing.T, w *ward) {
			w.put("/sys/fs/cgroup/system.slice/gatehouse.service/memory.events", "oom 1\noom_kill 1\n", 0o444, 0)
		}, []string{"warning memory: The gateway was killed for want of memory > see what takes it: ps aux --sort=-rss | head; journalctl -u gatehouse -n 50"}, "killed once"},
		{"weak power now", func(_ *testing.T, w *ward) {
			w.put("/sys/devices/platform/soc/soc:firmware/get_throttled", "50005", 0o444, 0)
		}, []string{"warning memory: The power supply is too weak > give this board a stronger power supply and a short, thick cable: a weak one damages the memory card"}, "get_throttled 0x50005"},
		{"weak power before", func(_ *testing.T, w *ward) {
			w.put("/sys/devices/platform/soc/soc:firmware/get_throttled", "0x50000", 0o444, 0)
		}, []string{"warning memory: The power supply was too weak at least once since the start > give this board a stronger power supply and a short, thick cable: a weak one damages the memory card"}, ""},
		{"good power", func(_ *testing.T, w *ward) {
			w.put("/sys/devices/platform/soc/soc:firmware/get_throttled", "0x0", 0o444, 0)
		}, nil, "memory: the gateway uses 41.0 MB"},
		{"no memory figures", func(_ *testing.T, w *ward) { w.remove("/proc/meminfo") }, []string{
			"unchecked memory: the system does not say how much memory it has > ",
		}, ""},
	}
}
