package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

const clockLong = `Show the clock of the running gateway: its time and the system's, whether it is
trusted, the time floor (the last time that was sure, below which it never reads),
and what is wrong with them and what to do about it.

While the clock is not trusted, doors open as usual; records are marked, and signed
commands of the cloud are refused.

A gateway that does not run has no clock. Its floor stays on its disk: start it
first, then accept or reset.`

func (a *app) clockCommand() *cobra.Command {
	cmd := a.remote(&cobra.Command{
		Use:   "clock",
		Short: "Show the clock, and what is wrong with it",
		Long:  clockLong,
	}, shown(a, (*client.Client).Clock, a.printClock))
	cmd.AddCommand(
		a.remote(&cobra.Command{
			Use:   "accept",
			Short: "Accept the system's time",
			Long: `Accept the system's present time as right: compare it with a watch first. The
gateway's clock steps forward to it however far that is, and is trusted until the
gateway is restarted, also without a time service. The journal records it.`,
		}, shown(a, (*client.Client).AcceptClock, a.clockSet("The system's time is accepted until the gateway is restarted."))),
		a.remote(&cobra.Command{
			Use:   "reset",
			Short: "Lower a floor that a wrong time has raised",
			Long: `Set the gateway's clock and its floor back to the system's present time, after a
wrong time has raised them: compare the system's time with a watch first. The
journal records it; records that were written under the wrong time keep it.`,
		}, shown(a, (*client.Client).ResetClock, a.clockSet("The clock and its floor are set back to the system's time."))),
	)
	return cmd
}

// clockSet returns a function that writes what was done to the clock, and its state.
func (a *app) clockSet(done string) func(*lines, adminapi.Clock) {
	return func(w *lines, c adminapi.Clock) {
		w.printf("%s\n", done)
		a.printClock(w, c)
	}
}

func (a *app) printClock(w *lines, c adminapi.Clock) {
	distance := c.System.Sub(c.Now.Time).Round(time.Second)
	apart := "the same"
	if distance.Abs() >= 2*time.Second {
		apart = fmt.Sprintf("%s from it", distance)
	}
	state := printable(c.State)
	if c.Accepted {
		state += ", accepted by an administrator until the gateway is restarted"
	}
	w.table([][]string{
		{"Clock", a.stamp(c.Now)},
		{"System", fmt.Sprintf("%s (%s)", a.stamp(c.System), apart)},
		{"Trusted", fmt.Sprintf("%s (%s)", yesNo(c.Trusted), state)},
		{"Floor", a.stamp(c.Floor)},
	})
	if c.Why == "" {
		return
	}
	w.printf("")
	w.printf("%s", printable(c.Why))
	if !c.Believed.IsZero() {
		w.printf("  It is accepted from %s on, by the system's time, if it holds until then.", a.stamp(c.Believed))
	}
	w.printf("  What to do: %s", printable(c.Advice))
}
