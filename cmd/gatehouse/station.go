package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"rsc.io/qr"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
	"gatehouse/internal/web/kit"
)

func (a *app) stationCommand() *cobra.Command {
	cmd := group("station", "Enrol and watch stations", "Stations are the hardware with the locks. A station connects to the gateway's MQTT\nbroker with the credentials that \"station add\" prints.")
	cmd.AddCommand(
		a.stationAdd(),
		a.remote(&cobra.Command{Use: "list", Short: "List the stations and their state"}, shown(a, (*client.Client).Stations, a.stationTable())),
		a.remote(&cobra.Command{Use: "show N", Short: "Show one station"},
			func(ctx context.Context, gw *client.Client, in arguments) error {
				return show(a, func(w *lines, s adminapi.Station) { a.stationTable()(w, []adminapi.Station{s}) })(gw.Station(ctx, in.station))
			}),
		a.remote(&cobra.Command{
			Use:   "watch",
			Short: "Follow the stations as they change",
			Long: `Show the state of every station as it changes, until interrupted: on a terminal
one line for each station, elsewhere, and with --json, one for each change.`,
		}, a.watchStations),
		a.stationSet(),
		a.stationRotate(),
		a.remote(&cobra.Command{
			Use:   "remove N",
			Short: "Remove a station and the grants for it",
			Long:  "Remove a station and the grants for it, without asking. Its connection ends at once.",
		}, func(ctx context.Context, gw *client.Client, in arguments) error {
			return a.gone(removed{StationID: in.station}, gw.RemoveStation(ctx, in.station), "Station %s and the grants for it are removed.", in.station)
		}),
	)
	return cmd
}

func (a *app) stationAdd() *cobra.Command {
	var id, name string
	var locks int
	var code bool
	cmd := a.remote(&cobra.Command{
		Use:   "add",
		Short: "Enrol a station",
		Long: `Enrol a station and print, this once, its station token (by which apps name it)
and its MQTT credentials (with which the hardware connects).`,
		Example: `  gatehouse station add --id 1042 --locks 2 --name "North entrance"
  gatehouse station add --id 1043 --locks 1 --qr
  gatehouse station add --id 1043 --locks 1 --json`,
	}, func(ctx context.Context, gw *client.Client, _ arguments) error {
		number, err := site.ParseStationID(id)
		if err != nil {
			return wrongUsage(err)
		}
		if err := within("locks", locks, 1, site.MaxLocks); err != nil {
			return err
		}
		return show(a, func(w *lines, issued adminapi.IssuedStation) {
			w.printf("Station %s is enrolled with %s.", number, plural(locks, "lock"))
			a.printStation(ctx, w, gw, issued, code)
		})(gw.AddStation(ctx, adminapi.NewStation{StationID: number, Name: name, Locks: locks}))
	})
	qrFlag(cmd, &code)
	cmd.Use += " --id N --locks N"
	cmd.Flags().StringVar(&id, "id", "", "enrol it as station `N`, the id that the hardware knows")
	cmd.Flags().IntVar(&locks, "locks", 0, "it has `N` locks")
	cmd.Flags().StringVar(&name, "name", "", "people call it `TEXT`")
	for _, flag := range []string{"id", "locks"} {
		_ = cmd.MarkFlagRequired(flag) // the error is for flags that do not exist
	}
	return cmd
}

// qrFlag adds the flag of a QR code.
func qrFlag(cmd *cobra.Command, code *bool) {
	cmd.Flags().BoolVar(code, "qr", false, "show the login as a QR code too, except with --json")
}

// printStation shows what was issued for a station, with code as a QR code too.
func (a *app) printStation(ctx context.Context, w *lines, gw *client.Client, issued adminapi.IssuedStation, code bool) {
	rows := [][]string{
		{"  station token", issued.StationToken},
		{"  MQTT client id", issued.MQTT.ClientID},
		{"  MQTT username", issued.MQTT.Username},
		{"  MQTT password", issued.MQTT.Password},
	}
	if issued.StationToken == "" {
		rows = rows[1:]
	}
	w.printf("")
	w.table(rows)
	w.printf("")
	if code {
		login, err := loginURL(ctx, gw, issued.MQTT)
		if err == nil {
			_, colours := a.terminal(a.stdout)
			w.qr(login, colours)
		}
		defer func() { w.err = errors.Join(w.err, err) }() // after what is not shown again
	}
	w.printf("They are not shown again; \"gatehouse station rotate %s\" generates a new password.", issued.StationID)
}

func (a *app) stationTable() func(*lines, []adminapi.Station) {
	heading := []string{"ID", "NAME", "STATUS", "BATTERY", "LAST HEARD", "LOCKS"}
	return listing("There are no stations; \"gatehouse station add --id N --locks N\" enrols one.", heading, func(s adminapi.Station) []string {
		return []string{s.ID.String(), s.Name, presence(s), volts(s.BatteryVoltage), a.stamp(s.LastConnection), lockList(s.Locks)}
	})
}

// presence returns "online" or "offline", and whether an online station takes no commands.
func presence(s adminapi.Station) string {
	if s.Status == site.Online && s.Subscribed != nil && !*s.Subscribed {
		return "online, not subscribed"
	}
	return string(s.Status)
}

func volts(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 2, 64) + " V"
}

// lockList returns "lock-1 locked, lock-2 unlocked (door open)".
func lockList(locks []site.Lock) string {
	parts := make([]string, len(locks))
	for i, l := range locks {
		parts[i] = l.ID.String() + " " + string(l.Status)
		if l.Door != "" {
			parts[i] += " (door " + string(l.Door) + ")"
		}
	}
	return strings.Join(parts, ", ")
}

func (a *app) watchStations(ctx context.Context, gw *client.Client, _ arguments) error {
	heading := []string{"TIME", "STATION", "STATUS", "BATTERY", "LOCKS", "NAME"}
	widths := []int{len(time.DateTime + " CEST"), len("STATION"), len(site.Offline), len("BATTERY"), 0}
	board, w := a.screen(heading...), a.text()
	defer board.end()
	for line, err := range gw.Watch(ctx) {
		locks := lockList(line.Locks)
		row := []string{a.local(a.now()), line.ID.String(), string(line.Status), volts(line.BatteryVoltage), locks, line.Name}
		switch {
		case err != nil:
			return err
		case line.ID == 0: // the start: everything comes again
			board.clear()
		case a.json && line.Removed:
			err = a.document(kit.WatchRemoved{ID: line.ID, Removed: true})
		case a.json:
			err = a.document(line.Station)
		case board != nil && line.Removed:
			err = board.set(line.ID)
		case board != nil:
			row[0] = a.hour(a.now())
			err = board.set(line.ID, row...)
		case line.Removed:
			w.row(widths, row[0], row[1], "removed")
		default:
			first := widths[4] == 0
			widths[4] = max(widths[4], len(locks))
			if first {
				w.row(widths, heading...)
			}
			w.row(widths, row...)
		}
		if err := errors.Join(err, w.err); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) stationSet() *cobra.Command {
	var mode string
	cmd := a.remote(&cobra.Command{
		Use:   "set N",
		Short: "Set what Home Assistant has of a station",
		Long: `Set what Home Assistant has of a station: nothing ("off"), its state ("state"), or its
state with the right to unlock ("state+unlock"). It takes effect at once.`,
		Example: "  gatehouse station set 1042 --homeassistant state+unlock",
	}, func(ctx context.Context, gw *client.Client, in arguments) error {
		to := site.HomeAssistantMode(mode)
		if !to.Valid() {
			return wrongUsage(errors.New("--homeassistant is off, state or state+unlock"))
		}
		return show(a, func(w *lines, s adminapi.Station) {
			w.printf("Home Assistant has of station %s: %s.", s.ID, s.HomeAssistant)
		})(gw.UpdateStation(ctx, in.station, adminapi.StationPatch{HomeAssistant: &to}))
	})
	cmd.Use += " --homeassistant MODE"
	cmd.Flags().StringVar(&mode, "homeassistant", "", "set `MODE`: off, state or state+unlock")
	_ = cmd.MarkFlagRequired("homeassistant") // the error is for flags that do not exist
	return cmd
}

func (a *app) stationRotate() *cobra.Command {
	var code bool
	cmd := a.remote(&cobra.Command{
		Use:   "rotate N",
		Short: "Set a new MQTT password of a station",
		Long: `Generate a new MQTT password for a station and print it this once. Its connection
ends, and it stays offline until the hardware has the new password. The station
token stays.`,
	}, func(ctx context.Context, gw *client.Client, in arguments) error {
		return show(a, func(w *lines, issued adminapi.IssuedStation) {
			w.printf("Station %s has a new MQTT password; its connection with the old one has ended.", in.station)
			a.printStation(ctx, w, gw, issued, code)
		})(gw.Rotate(ctx, in.station))
	})
	qrFlag(cmd, &code)
	return cmd
}

// quietZone is how many light modules surround a QR code (ISO/IEC 18004).
const quietZone = 4

// loginURL returns what a station's login is as a QR code, in the form that the web
// console shows: mqtts://station-7:PASSWORD@ADDRESS:8883.
func loginURL(ctx context.Context, gw *client.Client, login adminapi.MQTTLogin) (string, error) {
	status, err := gw.Status(ctx)
	if err != nil {
		return "", err
	}
	host := status.Name + ".local"
	if len(status.Addresses) > 0 {
		host = status.Addresses[0].String()
	}
	for _, name := range []string{"mqtts", "mqtt"} {
		if address := addressOf(status.Listeners, name, host); address != "" {
			u := url.URL{Scheme: name, User: url.UserPassword(login.Username, login.Password), Host: address}
			return u.String(), nil
		}
	}
	return "", errors.New("the gateway has no MQTT listener, so there is no address for a QR code")
}

// qr draws a text as a QR code of half blocks, light modules as blocks; with colours it is
// right whatever the terminal's own are.
func (l *lines) qr(text string, colours bool) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		l.err = errors.Join(l.err, fmt.Errorf("drawing the QR code: %w", err))
		return
	}
	begin, end := "", ""
	if colours {
		begin, end = "\x1b[38;5;231;48;5;16m", "\x1b[0m"
	}
	for y := -quietZone; y < code.Size+quietZone; y += 2 {
		var row strings.Builder
		for x := -quietZone; x < code.Size+quietZone; x++ {
			block := 0
			if !code.Black(x, y) { // outside is light
				block = 1
			}
			if !code.Black(x, y+1) {
				block += 2
			}
			row.WriteRune([]rune(" ▀▄█")[block])
		}
		l.printf("%s%s%s", begin, row.String(), end)
	}
}
