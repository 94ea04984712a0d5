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
	"gatehouse/internal/web/adminapi"
)

// defect is something that is wrong with an otherwise healthy board, and all that the
// doctor reports of it.
type defect struct {
	name  string
	cause func(t *testing.T, b *board)
	want  []string // complaints
	fact  string   // is part of the evidence
}

const (
	stopped = "fatal gateway: The gateway is stopped > systemctl enable --now gatehouse.socket gatehouse"
	alone   = "notice service: The gateway is no service: nothing starts it with the machine, or restarts it when it ends > sudo gatehouse service install"
	noPorts = "skipped ports: the gateway does not answer which ports it has > sudo gatehouse doctor"
	taken   = "fatal ports: Another program has the port of [::]:1883 open > stop that program, or change mqtt.listen; then systemctl restart gatehouse.socket gatehouse"
	backup  = "keep a copy of /var/lib/gatehouse, then put a backup in its place: gatehouse restore FILE"
)

func TestExamine_defects(t *testing.T) {
	for _, list := range [][]defect{ofGateway(), ofService(), ofUpdate(), ofConfiguration(), ofPorts(), ofData(), ofDatabase()} {
		for _, d := range list {
			t.Run(d.name, func(t *testing.T) {
				b := healthy(t)
				d.cause(t, b)
				r := b.examine(t)
				if got := complaints(r); !slices.Equal(got, d.want) {
					t.Errorf("the doctor reports\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(d.want, "\n"))
				}
				bad := slices.ContainsFunc(d.want, func(line string) bool {
					return strings.HasPrefix(line, "fatal ") || strings.HasPrefix(line, "warning ")
				})
				if r.Healthy == bad {
					t.Errorf("the board is healthy: %t", r.Healthy)
				}
				if facts := evidence(r); !strings.Contains(facts, d.fact) {
					t.Errorf("no evidence %q in\n%s", d.fact, facts)
				}
			})
		}
	}
}

func condition(code health.Code) []health.Condition {
	return []health.Condition{{Code: code, Severity: health.Warning, Summary: "It is so", Advice: "Do this", Since: site.At(now().Add(-time.Hour))}}
}

func ofGateway() []defect {
	fail := func(b *board) {
		b.stop()
		b.unit()["ActiveState"], b.unit()["SubState"] = "failed", "failed"
	}
	const failed = "fatal gateway: The gateway has failed, and systemd has given it up > journalctl -u gatehouse -n 50; then systemctl restart gatehouse"
	return []defect{
		{"condition", func(_ *testing.T, b *board) { b.status.Conditions = condition(health.PlainHTTP) }, []string{
			"warning gateway: It is so > Do this",
		}, "gateway: plain-http since 2026-11-21 07:00:00 UTC"},
		{"clock that the sandbox hides", func(_ *testing.T, b *board) { b.status.Conditions = condition(health.ClockUntrusted) }, []string{
			"warning gateway: It is so > The system's clock is right, but the gateway sees only what systemd-timesyncd does. For another time service: systemctl edit gatehouse, " +
				"and write: [Service], ProtectClock=no, SystemCallFilter=adjtimex, each on a line; then systemctl restart gatehouse",
		}, ""},
		{"clock that is not right", func(_ *testing.T, b *board) {
			b.kernel = false
			b.status.Conditions = condition(health.ClockUntrusted)
		}, []string{"warning gateway: It is so > Do this"}, ""},
		{"certificate for another name", func(_ *testing.T, b *board) {
			b.status.Certificate = &adminapi.CertificateStatus{Names: []string{"gate.example.test"}}
		}, []string{
			"notice gateway: The certificate does not have the name north-gate.local: apps that call the gateway by it refuse it > have apps use a name that it has; or set name in the configuration, or name another certificate in [tls]",
		}, "it is for: gate.example.test\n"},
		{"another machine has the name", func(_ *testing.T, b *board) { b.status.Found = "north-gate2" }, []string{
			"notice gateway: The network finds this machine as north-gate2.local, not as north-gate.local > set name in the configuration to north-gate2; or give the machine a name that no other one on the network has, with hostnamectl hostname north-gate",
		}, ""},
		{"found by its name", func(_ *testing.T, b *board) { b.status.Found = "north-gate" }, nil, ""},
		{"not ready", func(_ *testing.T, b *board) { b.status.Ready = false }, []string{
			"fatal gateway: The gateway is not ready to open doors > journalctl -u gatehouse -n 50",
		}, ""},
		{"no account", func(_ *testing.T, b *board) { b.status.Accounts = 0 }, []string{
			"notice gateway: Nobody can log in yet: there is no account > gatehouse account add YOU@EXAMPLE.COM --admin; or create the first one in a browser or an app, with the setup code that the log and the text console show",
		}, ""},
		{"older version runs", func(_ *testing.T, b *board) { b.status.Version = "1.2.2" }, []string{
			"notice gateway: The gateway that runs is version 1.2.2, and this program is 1.2.3 > systemctl restart gatehouse",
		}, ""},
		{"stopped", func(_ *testing.T, b *board) { b.stop() }, []string{stopped}, "gatehouse.service is inactive (dead), enabled"},
		{"failed", func(_ *testing.T, b *board) {
			fail(b)
		}, []string{failed}, "gateway: gatehouse.service is failed (failed), enabled\ngateway: nothing answers on"},
		{"active, and does not answer", func(_ *testing.T, b *board) { b.silent = fault.New(fault.Unavailable, "no answer") }, []string{
			"fatal gateway: The service is active, but the gateway does not answer > journalctl -u gatehouse -n 50; then systemctl restart gatehouse",
		}, ""},
		{"hangs", func(_ *testing.T, b *board) { b.silent = context.DeadlineExceeded }, []string{
			"fatal gateway: The gateway runs but does not answer > systemctl restart gatehouse",
		}, "does not answer within 12s"},
		{"forbidden", func(_ *testing.T, b *board) { b.silent = fault.New(fault.Forbidden, "no permission") }, []string{
			"skipped gateway: this user may not ask the gateway on /run/gatehouse/admin.sock > sudo gatehouse doctor",
		}, ""},
		{"stopped without systemd", func(_ *testing.T, b *board) {
			b.stop()
			b.withoutSystemd()
		}, []string{"fatal gateway: The gateway does not run > gatehouse serve", alone}, "nothing answers on /run/gatehouse/admin.sock"},
	}
}

func ofService() []defect {
	return []defect{
		{"started by hand", func(_ *testing.T, b *board) { b.unit()["MainPID"], b.unit()["ActiveState"] = "0", "inactive" }, []string{
			"warning service: The gateway that runs was not started by gatehouse.service > stop it; systemctl restart gatehouse",
		}, ""},
		{"not installed", func(_ *testing.T, b *board) { b.unit()["LoadState"] = "not-found" }, []string{
			"notice service: The gateway is no service: nothing starts it with the machine, or restarts it when it ends > sudo gatehouse service install",
		}, ""},
		{"restarted", func(_ *testing.T, b *board) { b.unit()["NRestarts"], b.unit()["Result"] = "10", "watchdog" }, []string{
			"notice service: systemd had to restart the gateway > journalctl -u gatehouse -n 50; systemctl reset-failed gatehouse resets the count",
		}, "its last end was watchdog"},
		{"systemd does not answer", func(_ *testing.T, b *board) {
			b.failing["systemctl"] = errors.New("no bus")
			b.stop()
		}, []string{
			"fatal gateway: The gateway does not answer, and systemd could not be asked why > systemctl status gatehouse",
			"skipped service: systemd could not be asked: no bus > systemctl status gatehouse",
		}, ""},
		{"first boot failed", func(_ *testing.T, b *board) {
			b.units["gatehouse-site.service"]["Result"], b.units["gatehouse-site.service"]["ExecMainStatus"] = "exit-code", "1"
		}, []string{
			"warning service: The site file of the first boot was not applied, or not all of it > read gatehouse-result.txt beside the site file and correct what it names; systemctl start gatehouse-site",
		}, "gatehouse-site.service: its last end was exit-code, status 1"},
		{"first boot", func(_ *testing.T, b *board) { b.units["gatehouse-site.service"]["ActiveState"] = "activating" }, []string{
			"notice service: A site file is being applied > wait some minutes, then sudo gatehouse doctor",
		}, ""},
	}
}

func ofUpdate() []defect {
	phase := func(phase site.UpdatePhase) func(*testing.T, *board) {
		return func(_ *testing.T, b *board) {
			u := &b.status.Update
			u.Phase, u.Target, u.At, u.Other.Version = phase, "1.3.0", site.At(now().Add(18*time.Hour)), "1.3.0"
		}
	}
	ended := func(outcome site.UpdateOutcome, reason string) func(*testing.T, *board) {
		return func(_ *testing.T, b *board) {
			b.status.Update.Last = &site.LastUpdate{Version: "1.3.0", Outcome: outcome, Time: site.At(now().Add(-time.Hour)), Reason: reason}
		}
	}
	const again = " > gatehouse update FILE tries it again"
	return []defect{
		{"fell back", ended(site.UpdateFellBack, "version 1.3.0 did not start"), []string{
			"warning update: The last update to version 1.3.0 was undone at 2026-11-21 07:00 UTC: version 1.3.0 did not start > " +
				"remove the reason, or wait for the next version; then gatehouse update FILE",
		}, "update: Version 1.2.3 runs, from slot a.\nupdate: Slot b is empty.\n"},
		{"update failed", ended(site.UpdateFailed, "it was interrupted"), []string{
			"notice update: The last update to version 1.3.0 failed at 2026-11-21 07:00 UTC: it was interrupted" + again,
		}, ""},
		{"update refused", ended(site.UpdateRefused, "it is older"), nil, "update: The last update to version 1.3.0 was refused at 2026-11-21 07:00 UTC: it is older."},
		{"update refused after one that fell back", func(t *testing.T, b *board) {
			ended(site.UpdateFellBack, "version 1.3.0 did not start")(t, b)
			b.status.Update.Before = b.status.Update.Last
			b.status.Update.Last = &site.LastUpdate{Outcome: site.UpdateRefused, Time: site.At(now()), Reason: "it is older"}
		}, []string{
			"warning update: The last update to version 1.3.0 was undone at 2026-11-21 07:00 UTC: version 1.3.0 did not start > " +
				"remove the reason, or wait for the next version; then gatehouse update FILE",
		}, "update: The last update was refused at 2026-11-21 08:00 UTC: it is older."},
		{"no default", func(_ *testing.T, b *board) {
			b.status.Update.Default, b.status.Update.Trouble = "", "restore that line"
		}, []string{
			"warning update: No update is possible: restore that line > repair that, on another computer if need be; then systemctl restart gatehouse-update",
		}, ""},
		{"updated", ended(site.UpdateCommitted, ""), nil, "update: The last update to version 1.3.0 was completed at 2026-11-21 07:00 UTC."},
		{"update being written", phase(site.UpdateWriting), nil, "update: Version 1.3.0 is being written to slot b."},
		{"update waits", phase(site.UpdateWaiting), []string{
			"notice update: Version 1.3.0 waits in slot b: the board restarts into it at 2026-11-22 02:00 UTC > " +
				"leave the machine switched on; gatehouse update FILE, without --at, installs it at once",
		}, ""},
		{"trial", func(t *testing.T, b *board) {
			phase(site.UpdateTrial)(t, b)
			b.status.Update.Default, b.status.Update.WaitingFor = "b", "2 of 5 stations"
		}, []string{
			"notice update: Version 1.2.3 is on trial, and waits for 2 of 5 stations: unless all is well in time, the board goes back to slot b > " +
				"leave the machine switched on; gatehouse update status shows how it goes on",
		}, ""},
		{"slot chosen by hand", func(_ *testing.T, b *board) { b.status.Update.Default = "b" }, []string{
			"notice update: Slot a was chosen by hand: no update is taken until the default runs > systemctl reboot",
		}, "update: Slot b is the default: the next start takes it."},
		{"after a trial", func(t *testing.T, b *board) {
			phase(site.UpdateRestarting)(t, b)
			b.status.Update.Default = "b"
		}, nil, ""},
		{"no key for updates", func(_ *testing.T, b *board) {
			b.put("/usr/lib/gatehouse-image/update-keys", "# none\n\n", 0o644, 0)
		}, []string{
			"notice update: This image has no key of those whose updates it may take: it refuses every update > " +
				"take a backup, write the card anew with the image of a release, and restore the backup there",
		}, "no key in /usr/lib/gatehouse-image/update-keys"},
		{"no image", func(_ *testing.T, b *board) {
			b.status.Update = site.UpdateStatus{Advice: "This system is updated by its package: sudo apt-get install ./gatehouse_VERSION_arm64.deb"}
			b.remove("/usr/lib/gatehouse-image/update-keys")
		}, nil, ""},
	}
}

func ofConfiguration() []defect {
	const correct = " > correct what is named, check it with gatehouse serve --check, then systemctl restart gatehouse"
	return []defect{
		{"broken while it runs", func(_ *testing.T, b *board) { b.config = "dta = 1\nname = 2\n" }, []string{
			"warning configuration: The configuration has errors; the gateway keeps the one that it has read" + correct,
		}, `/etc/gatehouse/gatehouse.toml:1: unknown key "dta"`},
		{"broken while it is stopped", func(_ *testing.T, b *board) {
			b.stop()
			b.config = "dta = 1"
		}, []string{
			stopped, "fatal configuration: The gateway cannot start with this configuration" + correct,
			"skipped ports: the configuration, which names the ports, cannot be used > ",
		}, ""},
		{"unreadable", func(_ *testing.T, b *board) {
			b.cfg.Files = func(string, []string) ([]config.File, error) { return nil, fs.ErrPermission }
		}, []string{"skipped configuration: this user may not read the configuration > sudo gatehouse doctor"}, ""},
		{"missing", func(_ *testing.T, b *board) {
			b.cfg.Files = func(string, []string) ([]config.File, error) { return nil, errors.New("x.toml: no such file") }
		}, []string{"warning configuration: The configuration has errors; the gateway keeps the one that it has read" + correct}, "x.toml: no such file"},
		{"from the unit's environment", func(_ *testing.T, b *board) {
			b.unit()["Environment"] = "GOMEMLIMIT=200MiB GATEHOUSE_LOG_LEVEL=loud"
		}, []string{"warning configuration: The configuration has errors; the gateway keeps the one that it has read" + correct}, "GATEHOUSE_LOG_LEVEL"},
	}
}

func ofPorts() []defect {
	hold := func(b *board, address, program string) {
		b.outputs["ss"] = "LISTEN 0 128 " + address + " 0.0.0.0:* " + program + "\n"
	}
	const mosquitto = `users:(("mosquitto",pid=700,fd=5))`
	return []defect{
		{"taken", func(_ *testing.T, b *board) {
			b.stop()
			hold(b, "0.0.0.0:1883", mosquitto)
		}, []string{stopped, taken}, "0.0.0.0:1883 is open in mosquitto (process 700)"},
		{"taken by an unknown program", func(_ *testing.T, b *board) {
			b.stop()
			hold(b, "*:1883", "")
		}, []string{stopped, taken}, "a program that only root sees"},
		{"no ss", func(_ *testing.T, b *board) {
			b.stop()
			b.failing["ss"] = errors.New("not found")
		}, []string{stopped, "skipped ports: which ports are open cannot be read: not found > "}, ""},
		{"port 80 taken", func(_ *testing.T, b *board) {
			b.units["gatehouse-redirect.socket"]["ActiveState"] = "failed"
			hold(b, "*:80", `users:(("nginx",pid=9,fd=5))`)
		}, []string{
			"notice ports: Another program has port 80: http://ADDRESS/ca.crt and the redirection to HTTPS do not work > stop that program (ss -ltnp names it), then systemctl stop gatehouse.socket gatehouse; systemctl start gatehouse.socket gatehouse",
		}, ""},
	}
}

func ofData() []defect {
	const room = "make room (du -xh /var 2>/dev/null | sort -rh | head -n 20), or lower max_size in [journal]"
	return []defect{
		{"another user's", func(_ *testing.T, b *board) { b.put("/var/lib/gatehouse/gatehouse.db-wal", "", 0o600, 0) }, []string{
			"warning data: The data is not for the gateway's user alone > chown -R --reference=/var/lib/gatehouse /var/lib/gatehouse; chmod -R go= /var/lib/gatehouse; systemctl restart gatehouse",
		}, "/var/lib/gatehouse/gatehouse.db-wal is owned by user 0, and not 997"},
		{"readable", func(_ *testing.T, b *board) { b.files["var/lib/gatehouse/token.key"].Mode = 0o640 }, []string{
			"warning data: The data is not for the gateway's user alone > chown -R --reference=/var/lib/gatehouse /var/lib/gatehouse; chmod -R go= /var/lib/gatehouse; systemctl restart gatehouse",
		}, "token.key has mode -rw-r-----"},
		{"full", func(_ *testing.T, b *board) { b.room.Free = 1e6 }, []string{
			"fatal disk: The disk is nearly full > make room: du -xh /var 2>/dev/null | sort -rh | head -n 20",
		}, "1.0 MB free of 8.0 GB"},
		{"little room", func(_ *testing.T, b *board) { b.room.Free = 100e6 }, []string{
			"warning disk: The disk has little room left, and the journal may grow by 256.0 MB > " + room,
		}, ""},
		{"worn", func(_ *testing.T, b *board) { b.hasWritten(1200e6, 4*24*time.Hour+time.Minute) }, []string{
			"notice writes: 299.9 MB a day, to mmcblk0p4; a card is meant for 25.0 MB a day > find what writes so much, first the log of the system: " +
				"Storage=volatile in /etc/systemd/journald.conf; or have the data on a disk that is no card",
		}, "writes: 1.2 GB since the machine was started, 4 days ago"},
		{"written since an hour", func(_ *testing.T, b *board) { b.hasWritten(60e6, time.Hour+10*time.Second) }, nil, "writes: what is written a day shows after a day"},
		{"no card", func(_ *testing.T, b *board) {
			b.hasWritten(1200e6, 4*24*time.Hour)
			b.put("/sys/dev/block/179:4/uevent", "DEVNAME=sda1\n", 0o644, 0)
		}, nil, "writes: 1.2 GB since the machine was started, 4 days ago"},
		{"no count of writes", func(_ *testing.T, b *board) { b.remove("/sys/dev/block/179:4/stat") }, nil, "writes: open sys/dev/block/179:4/stat"},
		{"no time", func(_ *testing.T, b *board) { b.remove("/proc/uptime") }, []string{
			"skipped writes: how long the machine has run cannot be read: open proc/uptime: file does not exist > ",
		}, ""},
		{"read-only", func(_ *testing.T, b *board) { b.room.ReadOnly = true }, []string{
			"fatal disk: The disk is read-only: nothing is recorded > find the reason with dmesg | grep -i ext4; replace the card if it is worn",
		}, ""},
	}
}

func ofDatabase() []defect {
	return []defect{
		{"damaged", func(_ *testing.T, b *board) { b.state.Damage = "page 7 is bad" }, []string{"fatal database: The database is damaged > " + backup}, "page 7 is bad"},
		{"no database", func(_ *testing.T, b *board) { b.stateErr = fault.New(fault.Invalid, "no database\nand no log\n") }, []string{
			"fatal database: The database cannot be used > " + backup,
		}, "no database; and no log\n"},
		{"none yet", func(_ *testing.T, b *board) {
			b.stop()
			b.stateErr = fault.New(fault.NotFound, "none")
		}, []string{
			stopped, "notice database: There is no database yet: the gateway creates it at its first start > systemctl start gatehouse",
		}, ""},
		{"forbidden", func(_ *testing.T, b *board) { b.stateErr = fs.ErrPermission }, []string{
			"skipped database: this user may not read the database > sudo gatehouse doctor",
		}, ""},
		{"unreadable", func(_ *testing.T, b *board) { b.stateErr = fault.New(fault.Unavailable, "The disk fails") }, []string{
			"skipped database: the database cannot be read: The disk fails > ",
		}, ""},
	}
}
