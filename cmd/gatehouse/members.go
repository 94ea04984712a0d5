package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

const (
	maxSimulated = 10_000
	firstID      = site.StationID(900_001) // of stations enrolled for a simulation
	// removeTimeout bounds the removal of all enrolled stations at the end.
	removeTimeout = 2 * time.Minute
)

// members returns the stations to simulate; remove undoes what was enrolled for them,
// also after an error.
func (a *app) members(ctx context.Context, flags simulation) (members []stationsim.Member, remove func() error, err error) {
	nothing := func() error { return nil }
	switch {
	case flags.site != "":
		members, err = a.membersOfSite(flags.site)
		return members, nothing, err
	case flags.credentials != "":
		members, err = a.membersOfCredentials(flags.credentials, cmp.Or(flags.locks, 1))
		return members, nothing, err
	}
	gw, err := a.gateway()
	if err != nil {
		return nil, nothing, err
	}
	members, err = enrol(ctx, gw, flags.stations, cmp.Or(flags.locks, 2))
	return members, func() error { defer gw.Close(); return removeAll(ctx, gw, members) }, err
}

func (a *app) membersOfSite(path string) ([]stationsim.Member, error) {
	s, err := sitefile.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var members []stationsim.Member
	for _, st := range s.Stations {
		if st.Secret == "" {
			a.complain(fmt.Sprintf("station %s has no secret in %s: it is not simulated", st.ID, path))
			continue
		}
		members = append(members, stationsim.Member{ID: st.ID, Locks: max(st.Locks, 1), Secret: st.Secret})
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("no station in %s has a secret: write one there, or use --credentials", path)
	}
	return members, nil
}

// issuedDocument is a line of "station add --json", or of "apply --json".
type issuedDocument struct {
	adminapi.IssuedStation
	Stations []adminapi.IssuedStation `json:"stations"`
}

func (a *app) membersOfCredentials(path string, locks int) ([]stationsim.Member, error) {
	in := a.stdin
	if path != "-" {
		file, err := os.Open(path) //nolint:gosec // named on the command line
		if err != nil {
			return nil, fmt.Errorf("reading the credentials: %w", err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	var members []stationsim.Member
	documents := json.NewDecoder(in)
	for {
		var d issuedDocument
		err := documents.Decode(&d)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the credentials: %w", err)
		}
		for _, issued := range append(d.Stations, d.IssuedStation) {
			if issued.MQTT.Password != "" {
				members = append(members, stationsim.Member{ID: issued.StationID, Locks: locks, Secret: site.Secret(issued.MQTT.Password)})
			}
		}
	}
	if len(members) == 0 {
		return nil, errors.New("there are no credentials: pass what \"gatehouse station add --json\" prints")
	}
	return members, nil
}

// enrol adds the stations of a simulation with ids that are free. After an error it
// returns those that were added.
func enrol(ctx context.Context, gw *client.Client, stations, locks int) ([]stationsim.Member, error) {
	var members []stationsim.Member
	for id := firstID; len(members) < stations; id++ {
		name := fmt.Sprintf("Simulated %d", len(members)+1)
		issued, err := gw.AddStation(ctx, adminapi.NewStation{StationID: id, Name: name, Locks: locks})
		if fault.Is(err, fault.Conflict) {
			continue // that id is taken
		}
		if err != nil {
			return members, fmt.Errorf("enrolling simulated stations: %w", err)
		}
		members = append(members, stationsim.Member{ID: id, Locks: locks, Secret: site.Secret(issued.MQTT.Password)})
	}
	return members, nil
}

// removeAll removes what was enrolled, also after ctx has ended.
func removeAll(ctx context.Context, gw *client.Client, members []stationsim.Member) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	for _, m := range members {
		if err := gw.RemoveStation(ctx, m.ID); err != nil && !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("the simulated stations %s to %s are still enrolled: %s; remove them with \"gatehouse station remove\"",
				m.ID, members[len(members)-1].ID, describe(err))
		}
	}
	return nil
}
