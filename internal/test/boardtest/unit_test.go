//go:build board

package boardtest_test

import (
	"fmt"
	"strconv"
	"strings"

	"gatehouse/internal/test/await"
)

// The units of the product.
const (
	service     = "gatehouse.service"
	socket      = "gatehouse.socket"
	siteService = "gatehouse-site.service"
)

// property returns a property of a unit.
func (b *board) property(unit, name string) string {
	b.Helper()
	return strings.TrimSpace(b.sh("systemctl show --property=" + name + " --value " + unit))
}

// number returns a property of a unit that is a number.
func (b *board) number(unit, name string) int {
	b.Helper()
	text := b.property(unit, name)
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatalf("%s of %s is %q", name, unit, text)
	}
	return n
}

// awaitActive waits until the service is ready, in another process than before.
func (b *board) awaitActive(before int) {
	b.Helper()
	await.Until(b, "the service is active again", func() bool {
		out, err := b.try("systemctl show --property=ActiveState,MainPID " + service)
		return err == nil && strings.Contains(out, "ActiveState=active\n") &&
			!strings.Contains(out, "MainPID=0\n") && !strings.Contains(out, "MainPID="+strconv.Itoa(before)+"\n")
	})
}

// dropIn adds settings to the service.
func (b *board) dropIn(name, text string) {
	b.Helper()
	b.write("/etc/systemd/system/"+service+".d/"+name+".conf", text)
	b.sh("systemctl daemon-reload")
}

// hurryWatchdog makes systemd wait 30 s for a sign of life, not a minute, which is longer than
// any load keeps the gateway from one. The gateway then sends signs more often.
func (b *board) hurryWatchdog() {
	b.Helper()
	b.dropIn("watchdog", "[Service]\nWatchdogSec=30\n")
	b.sh("systemctl restart " + service)
}

// allowUnlocks switches off the bounds on what one account may ask for; the next start
// reads it.
func (b *board) allowUnlocks() {
	b.Helper()
	b.write("/etc/gatehouse/conf.d/60-load.toml", "[unlock]\naccount_rate = 0\naccount_pending = 0\n")
}

// openUntilFed opens the door until the gateway has fed the watchdog three more times.
func (d *door) openUntilFed() {
	d.b.Helper()
	fed := func() string { return d.b.property(service, "WatchdogTimestampMonotonic") }
	for range 3 {
		before := fed()
		await.Until(d.b, "the gateway has fed the watchdog", func() bool { d.mustOpen(); return fed() != before })
	}
}

// awaitStatus waits until "systemctl status" does, or does not, say it.
func (b *board) awaitStatus(text string, says bool) {
	b.Helper()
	status := ""
	defer func() {
		if b.Failed() {
			b.Logf("the status of the service is %q", status)
		}
	}()
	await.Until(b, fmt.Sprintf("the status of the service says %q: %t", text, says), func() bool {
		status = b.property(service, "StatusText")
		return strings.Contains(status, text) == says
	})
}

// logged returns what a unit has logged, as written by the program.
func (b *board) logged(unit string) string {
	b.Helper()
	return b.sh("journalctl --sync && journalctl --no-pager --output=cat --unit=" + unit)
}

// awaitLogged waits for a text in the log of a unit.
func (b *board) awaitLogged(unit, text string) {
	b.Helper()
	await.Until(b, "the log of "+unit+" says "+strconv.Quote(text), func() bool { return strings.Contains(b.logged(unit), text) })
}

// reload has the configuration read again, and waits until it is: "systemctl reload" ends
// as soon as the gateway is told.
func (b *board) reload() {
	b.Helper()
	count := func() int { return strings.Count(b.logged(service), `msg="configuration read again"`) }
	before := count()
	b.sh("systemctl reload " + service)
	await.Until(b, "the configuration is read again", func() bool { return count() > before })
}
