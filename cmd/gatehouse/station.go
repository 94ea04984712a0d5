package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) stationCommand() *cobra.Command {
	cmd := group("station", "Enrol and watch stations", "Stations are the hardware with the locks. A station connects to the gateway's MQTT\nbroker with the credentials that its enrolment prints.")
	cmd.AddCommand(
		a.stationAdd(), a.stationList(), a.stationShow(),
		a.stationWatch(), a.stationRotate(), a.stationRemove(),
	)
	return cmd
}

// newStation holds the flags of station add.
type newStation struct {
	id    string
	locks int
	name  string
}

func (a *app) stationAdd() *cobra.Command {
	var flags newStation
	cmd := &cobra.Command{
		Use:   "add --id N --locks N",
		Short: "Enrol a station",
		Long: `Enrol a station and print, this once, its station token (by which apps name it)
and its MQTT credentials (with which the hardware connects).`,
		Example: `  gatehouse station add --id 1042 --locks 2 --name "North entrance"
  gatehouse station add --id 1043 --locks 1 --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("id") || !cmd.Flags().Changed("locks") {
				return errors.New("--id and --locks must be given")
			}
			return takes()(cmd, args)
		},
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.addStation(ctx, flags) }),
	}
	cmd.Flags().StringVar(&flags.id, "id", "", "enrol it as station `N`, the id that the hardware knows")
	cmd.Flags().IntVar(&flags.locks, "locks", 0, "it has `N` locks")
	cmd.Flags().StringVar(&flags.name, "name", "", "people call it `TEXT`")
	return cmd
}

func (a *app) addStation(ctx context.Context, flags newStation) error {
	id, err := site.ParseStationID(flags.id)
	if err != nil {
		return wrongUsage(err)
	}
	if flags.locks < 1 || flags.locks > site.MaxLocks {
		return wrongUsagef("--locks: a station has 1 to %d locks", site.MaxLocks)
	}
	return a.call(func(gw *client.Client) error {
		issued, err := gw.AddStation(ctx, adminapi.NewStation{StationID: id, Name: flags.name, Locks: flags.locks})
		if err != nil {
			return err
		}
		return a.result(issued, func(w *lines) {
			w.printf("Station %s is enrolled with %s.", id, plural(flags.locks, "lock"))
			printStation(w, issued)
		})
	})
}

// printStation shows what was issued for a station.
func printStation(w *lines, issued adminapi.IssuedStation) {
	rows := [][2]string{
		{"  MQTT client id", issued.MQTT.ClientID},
		{"  MQTT username", issued.MQTT.Username},
		{"  MQTT password", issued.MQTT.Password},
	}
	if issued.StationToken != "" {
		rows = append([][2]string{{"  station token", issued.StationToken}}, rows...)
	}
	w.printf("")
	w.pairs(rows)
	w.printf("")
	w.printf("They are not shown again; \"gatehouse station rotate %s\" makes a new password.", issued.StationID)
}

func (a *app) stationList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the stations and how they are",
		Args:  takes(),
		RunE: a.does(func(ctx context.Context, _ []string) error {
			return a.call(func(gw *client.Client) error {
				stations, err := gw.Stations(ctx)
				if err != nil {
					return err
				}
				return a.result(list(stations), func(w *lines) { a.stationTable(w, stations) })
			})
		}),
	}
}

func (a *app) stationTable(w *lines, stations []adminapi.Station) {
	if len(stations) == 0 {
		w.printf("There are no stations; \"gatehouse station add --id N --locks N\" enrols one.")
		return
	}
	rows := make([][]string, len(stations))
	for i, s := range stations {
		rows[i] = []string{s.ID.String(), s.Name, string(s.Status), volts(s.BatteryVoltage), lockList(s.Locks), a.stamp(s.LastConnection)}
	}
	w.table([]string{"ID", "NAME", "STATUS", "BATTERY", "LOCKS", "LAST HEARD"}, rows)
}

func volts(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 2, 64) + " V"
}

// lockList gives "1 locked, 2 unlocked".
func lockList(locks []site.Lock) string {
	parts := make([]string, len(locks))
	for i, l := range locks {
		parts[i] = fmt.Sprintf("%d %s", int(l.ID), l.Status)
	}
	return strings.Join(parts, ", ")
}

func (a *app) stationShow() *cobra.Command {
	return &cobra.Command{
		Use:               "show N",
		Short:             "Show one station",
		Args:              takes("N"),
		ValidArgsFunction: a.completeArguments(a.stationIDs),
		RunE: a.does(func(ctx context.Context, args []string) error {
			return a.callStation(args[0], func(gw *client.Client, id site.StationID) error {
				s, err := gw.Station(ctx, id)
				if err != nil {
					return err
				}
				return a.result(s, func(w *lines) { a.printState(w, s) })
			})
		}),
	}
}

// callStation runs f for the station that text names.
func (a *app) callStation(text string, f func(*client.Client, site.StationID) error) error {
	id, err := site.ParseStationID(text)
	if err != nil {
		return wrongUsage(err)
	}
	return a.call(func(gw *client.Client) error { return f(gw, id) })
}

func (a *app) printState(w *lines, s adminapi.Station) {
	w.pairs([][2]string{
		{"Station", s.ID.String()},
		{"Name", cmp.Or(s.Name, "-")},
		{"Status", string(s.Status)},
		{"Last heard", a.stamp(s.LastConnection)},
		{"Battery", volts(s.BatteryVoltage)},
		{"Enrolled", a.stamp(s.Enrolled)},
	})
	w.printf("")
	rows := make([][]string, len(s.Locks))
	for i, l := range s.Locks {
		rows[i] = []string{l.ID.String(), string(l.Status), a.stamp(l.LastUpdated)}
	}
	w.table([]string{"LOCK", "STATUS", "UPDATED"}, rows)
}

func (a *app) stationWatch() *cobra.Command {
	return &cobra.Command{
		Use:   "watch",
		Short: "Follow the stations as they change",
		Long:  "Show every station as it is, and then each that changes, until interrupted.",
		Args:  takes(),
		RunE: a.does(func(ctx context.Context, _ []string) error {
			return a.call(func(gw *client.Client) error {
				first := true
				for s, err := range gw.Watch(ctx) {
					if err == nil {
						err = a.result(s, func(w *lines) {
							if first {
								printWatchHead(w)
							}
							a.printChange(w, s)
						})
						first = false
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		}),
	}
}

func printWatchHead(w *lines) {
	w.printf("%-25s  %10s  %-7s  %7s  %s  %s", "TIME", "STATION", "STATUS", "BATTERY", "LOCKS", "NAME")
}

func (a *app) printChange(w *lines, s adminapi.Station) {
	w.printf("%s  %10s  %-7s  %7s  %s  %s", a.local(a.now()), s.ID, s.Status, volts(s.BatteryVoltage), lockList(s.Locks), printable(s.Name))
}

func (a *app) stationRotate() *cobra.Command {
	return &cobra.Command{
		Use:   "rotate N",
		Short: "Give a station a new MQTT password",
		Long: `Give a station a new MQTT password, printed this once. Its connection ends, and it
stays offline until the hardware has the new password. The station token stays.`,
		Args:              takes("N"),
		ValidArgsFunction: a.completeArguments(a.stationIDs),
		RunE: a.does(func(ctx context.Context, args []string) error {
			return a.callStation(args[0], func(gw *client.Client, id site.StationID) error {
				issued, err := gw.Rotate(ctx, id)
				if err != nil {
					return err
				}
				return a.result(issued, func(w *lines) {
					w.printf("Station %s has a new MQTT password; a connection with the old one has ended.", id)
					printStation(w, issued)
				})
			})
		}),
	}
}

// removedStation is what went with a station.
type removedStation struct {
	StationID site.StationID `json:"stationId"`
	Connected bool           `json:"connectionEnded"`
	Grants    int            `json:"grantsRemoved"`
}

func (a *app) stationRemove() *cobra.Command {
	return &cobra.Command{
		Use:               "remove N",
		Short:             "Remove a station and the grants for it",
		Long:              "Remove a station. Its connection ends at once and the grants for it go with it.\nNothing is asked.",
		Args:              takes("N"),
		ValidArgsFunction: a.completeArguments(a.stationIDs),
		RunE: a.does(func(ctx context.Context, args []string) error {
			return a.callStation(args[0], func(gw *client.Client, id site.StationID) error {
				return a.removeStation(ctx, gw, id)
			})
		}),
	}
}

func (a *app) removeStation(ctx context.Context, gw *client.Client, id site.StationID) error {
	s, err := gw.Station(ctx, id)
	if err != nil {
		return err
	}
	grants, err := countGrants(ctx, gw, func(g adminapi.Grant) bool { return g.StationID == id })
	if err != nil {
		return err
	}
	if err := gw.RemoveStation(ctx, id); err != nil {
		return err
	}
	removed := removedStation{StationID: id, Connected: s.Status == site.Online, Grants: grants}
	return a.result(removed, func(w *lines) {
		connection := "it was offline"
		if removed.Connected {
			connection = "its connection ended"
		}
		w.printf("Station %s is removed; %s, %s removed.", id, connection, plural(grants, "grant"))
	})
}
