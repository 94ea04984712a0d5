package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi/client"
)

// arguments are the parsed arguments of a command, by their names in its usage line:
// EMAIL, N (a station), LOCK, NAME, WHO (an account or a group), WHAT (a station or a
// group) and GROUP. What a command does not take is zero.
type arguments struct {
	email   site.Email
	station site.StationID
	lock    site.LockID
	name    string // of a token
	group   site.GroupName

	who, what site.Ref
	texts     []string // the arguments of all other names
}

// remote completes a command that asks the running gateway: its usage line names its
// arguments, which are parsed before run.
func (a *app) remote(cmd *cobra.Command, run func(context.Context, *client.Client, arguments) error) *cobra.Command {
	names := strings.Fields(cmd.Use)[1:]
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return a.command(cmd, func(ctx context.Context, args []string) error {
		in, err := parseArguments(names, args)
		if err != nil {
			return wrongUsage(err)
		}
		return a.call(func(gw *client.Client) error {
			a.useSiteZone(ctx, gw)
			return absent(in, run(ctx, gw, in))
		})
	})
}

func parseArguments(names, args []string) (in arguments, err error) {
	for i, text := range args {
		switch names[min(i, len(names)-1)] {
		case "EMAIL":
			in.email, err = site.ParseEmail(text)
		case "N":
			in.station, err = site.ParseStationID(text)
		case "LOCK":
			in.lock, err = site.ParseLockID(text)
		case "NAME":
			in.name = text
		case "GROUP":
			in.group, err = site.ParseGroupName(text)
		case "WHO":
			in.who, err = site.ParseWho(text)
		case "WHAT":
			in.what, err = site.ParseWhat(text)
		default:
			in.texts = append(in.texts, text)
		}
		if err != nil {
			return in, err
		}
	}
	return in, nil
}

// removed names what was removed.
type removed struct {
	Email        site.Email     `json:"email,omitempty"`
	AccountGroup site.GroupName `json:"accountGroup,omitempty"`
	StationID    site.StationID `json:"stationId,omitempty"`
	StationGroup site.GroupName `json:"stationGroup,omitempty"`
	Name         string         `json:"name,omitempty"` // of a token, a group or a holiday
}

// gone writes that something was removed, unless removing it has failed.
func (a *app) gone(what removed, err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return a.result(what, func(w *lines) { w.printf(format, args...) })
}

// zonePatience bounds how long a command waits for the time zone of the site.
const zonePatience = 5 * time.Second

// useSiteZone makes the command read and show times in the time zone of the site. A
// gateway that does not answer leaves that of this machine.
func (a *app) useSiteZone(ctx context.Context, gw *client.Client) {
	ctx, cancel := context.WithTimeout(ctx, zonePatience)
	defer cancel()
	status, err := gw.Status(ctx)
	if err != nil || status.TimeZone == "" {
		return
	}
	if zone, err := time.LoadLocation(status.TimeZone); err == nil {
		a.zone = zone
	}
}

// absent adds to the error of a gateway that does not have what the arguments name the
// command that lists what there is.
func absent(in arguments, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	hint := `"gatehouse station list" lists the stations`
	switch {
	case in.name != "":
		hint = `"gatehouse token list" and "gatehouse station list" list what there is`
	case in.who != (site.Ref{}):
		hint = `"gatehouse account list", "gatehouse station list", "gatehouse group list" and "gatehouse grants" list what there is`
	case in.group != "":
		hint = `"gatehouse group list" lists the groups`
	case len(in.texts) > 0:
		hint = `"gatehouse holiday list" lists the holidays`
	case in.email != "":
		hint = `"gatehouse account list" lists the accounts`
	}
	return fault.Wrap(fault.NotFound, fault.Sentence(err)+"; "+hint, err)
}
