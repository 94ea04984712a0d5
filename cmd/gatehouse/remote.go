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

	who, what string   // in their canonical form
	texts     []string // the arguments of all other names
}

// remote completes a command that asks the running gateway: its usage line names its
// arguments, which are parsed before run.
func (a *app) remote(cmd *cobra.Command, run func(context.Context, *client.Client, arguments) error) *cobra.Command {
	names := strings.Fields(cmd.Use)[1:]
	cmd.Args = takes(names...)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = a.does(func(ctx context.Context, args []string) error {
		in, err := parseArguments(names, args)
		if err != nil {
			return wrongUsage(err)
		}
		return a.call(func(gw *client.Client) error {
			a.useSiteZone(ctx, gw)
			return absent(in, run(ctx, gw, in))
		})
	})
	return cmd
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
			in.who, err = parseWho(text)
		case "WHAT":
			in.what, err = parseWhat(text)
		default:
			in.texts = append(in.texts, text)
		}
		if err != nil {
			return in, err
		}
	}
	return in, nil
}

// parseWho reads an e-mail address or the name of a group of accounts.
func parseWho(text string) (string, error) {
	if strings.Contains(text, "@") {
		email, err := site.ParseEmail(text)
		return string(email), err
	}
	group, err := site.ParseGroupName(text)
	return string(group), err
}

// parseWhat reads a station id or the name of a group of stations.
func parseWhat(text string) (string, error) {
	if id, err := site.ParseStationID(text); err == nil {
		return id.String(), nil
	}
	group, err := site.ParseGroupName(text)
	return string(group), err
}

// removed names what was removed.
type removed struct {
	Email        site.Email     `json:"email,omitempty"`
	AccountGroup site.GroupName `json:"accountGroup,omitempty"`
	StationID    site.StationID `json:"stationId,omitempty"`
	StationGroup site.GroupName `json:"stationGroup,omitempty"`
	Name         string         `json:"name,omitempty"` // of a token, a group or a holiday
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
	case in.who != "":
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
