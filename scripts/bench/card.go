package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	admin "gatehouse/internal/web/adminapi/client"
)

// A day on a memory card: 200 stations that report once a minute, and 500 unlocks. What
// each thing writes is measured, and the day is their sum: a report writes nothing but what
// the next save of all states does, however many came before it, so the time between saves
// can be shortened; unlocks come one at a time, each when all records of the one before are
// durable, so that none shares a commit, and each of a day costs as much.
const (
	cardStations = 200
	cardUnlocks  = 320 // that are measured: enough for SQLite to move its log into the file twice
	cardSaves    = 4   // of all states, that are measured
	cardLimit    = 25e6

	cardSaveEvery  = 5 * time.Second // station.save_interval while saves are measured
	cardRest       = time.Second
	daySaves       = 24 * 60 / 9  // by the default station.save_interval
	dayFloors      = 24 * 60 / 10 // of the time floor, each a transaction of one page
	dayUnlocks     = 500
	unlockRecords  = 5 // intent, acknowledged, done with unlocked, locked again
	unlockCommits  = 4
	unlockPatience = 10 * time.Second
)

// card is what a gateway wrote, by the kernel's count (/proc/PID/io, write_bytes).
type card struct {
	PerSave   float64 `json:"perSaveBytes"`
	PerUnlock float64 `json:"perUnlockBytes"`
}

// day is the sum of a day, in bytes. A save of the time floor counts as much as a commit
// of an unlock.
func (c *card) day() float64 {
	return daySaves*c.PerSave + dayFloors*c.PerUnlock/unlockCommits + dayUnlocks*c.PerUnlock
}

// measureCard measures unlocks and saves, each with a gateway that does little else.
func measureCard(ctx context.Context, o options, dir string, r *report) error {
	p, err := newProduct(o.binary, dir, "card.data")
	if err != nil {
		return err
	}
	if err := p.start(ctx); err != nil {
		return err
	}
	err = p.provision(ctx, cardStations)
	p.stop()
	if err != nil {
		return err
	}
	c := &card{}
	progress("card: %d unlocks, one at a time", cardUnlocks)
	err = p.withFleet(ctx, time.Hour, 0.01, func(gw *admin.Client) (err error) {
		c.PerUnlock, err = p.writtenPerUnlock(ctx, gw)
		return err
	})
	if err != nil {
		return err
	}
	progress("card: saving the states of %d stations %d times", cardStations, cardSaves)
	err = p.withFleet(ctx, cardSaveEvery, 12, func(*admin.Client) error {
		before := takeUsage([]int{p.process.pid()})
		time.Sleep(cardSaves * cardSaveEvery)
		c.PerSave = float64(takeUsage([]int{p.process.pid()}).written-before.written) / cardSaves
		return ctx.Err()
	})
	r.Card = c
	return err
}

// withFleet starts the gateway with that save interval, connects simulated stations that
// report every second, whose batteries lose so many volts an hour, and calls use when all
// are online and nothing is to be written any more.
func (p *product) withFleet(ctx context.Context, saveEvery time.Duration, hourly float64, use func(*admin.Client) error) error {
	p.extra = []string{"GATEHOUSE_STATION_SAVE_INTERVAL=" + saveEvery.String()}
	if err := p.start(ctx); err != nil {
		return err
	}
	defer p.stop()
	fleet, err := stationsim.NewFleet(stationsim.FleetConfig{Members: p.members(), Each: stationsim.Config{
		Broker: stationsim.Broker{Address: p.mqtt}, ReportEvery: time.Second, Actuation: 30 * time.Millisecond, Relock: 50 * time.Millisecond,
		Drain: hourly,
	}})
	if err != nil {
		return fmt.Errorf("making the stations: %w", err)
	}
	playing, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- fleet.Run(playing) }()
	defer func() { stop(); <-ended }()
	gw := admin.New(filepath.Join(p.data, "admin.sock"))
	for deadline := time.Now().Add(productPatience); ; time.Sleep(cardRest) {
		status, err := gw.Status(ctx)
		if err != nil {
			return fmt.Errorf("waiting for the stations: %w", err)
		}
		if status.Stations.Online == cardStations {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d stations came online", status.Stations.Online, cardStations)
		}
	}
	time.Sleep(3 * cardRest) // their first reports, and the changes of locks that these tell of
	return use(gw)
}

// members are the stations as a simulated fleet.
func (p *product) members() []stationsim.Member {
	members := make([]stationsim.Member, len(p.stations))
	for i, s := range p.stations {
		members[i] = stationsim.Member{ID: site.StationID(s.StationID), Locks: 1, Secret: site.Secret(s.MQTT.Password)}
	}
	return members
}

// writtenPerUnlock opens locks one after the other and returns the bytes that each cost.
func (p *product) writtenPerUnlock(ctx context.Context, gw *admin.Client) (float64, error) {
	bearer, err := p.login(ctx)
	if err != nil {
		return 0, err
	}
	status, err := gw.Status(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the length of the journal: %w", err)
	}
	before := takeUsage([]int{p.process.pid()})
	for n := range cardUnlocks {
		if err := p.unlock(ctx, p.stations[n%len(p.stations)].StationToken, bearer); err != nil {
			return 0, err
		}
		if err := awaitRecords(ctx, gw, status.Journal.Last+uint64(n+1)*unlockRecords); err != nil {
			return 0, err
		}
	}
	return float64(takeUsage([]int{p.process.pid()}).written-before.written) / cardUnlocks, nil
}

func (p *product) unlock(ctx context.Context, stationToken, bearer string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.http+"/v1/stations/"+stationToken+"/locks/lock-1/unlock", http.NoBody)
	if err != nil {
		return fmt.Errorf("making the unlock: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+bearer)
	_, answer, err := exchange(request)
	if err == nil && string(answer) != okBody {
		err = fmt.Errorf("answered %.200q", answer)
	}
	if err != nil {
		return fmt.Errorf("unlocking: %w", err)
	}
	return nil
}

// awaitRecords waits until the journal durably has so many records.
func awaitRecords(ctx context.Context, gw *admin.Client, last uint64) error {
	for deadline := time.Now().Add(unlockPatience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		status, err := gw.Status(ctx)
		if err != nil {
			return fmt.Errorf("reading the length of the journal: %w", err)
		}
		if status.Journal.Last >= last {
			return nil
		}
	}
	return fmt.Errorf("record %d did not come: an unlock has fewer than %d records", last, unlockRecords)
}

// cardFigure is the target, with the sum that the day is.
func cardFigure(c *card) figure {
	f := figure{Name: "written a day: 200 stations, each a report a minute, 500 unlocks", Target: "≤ 25 MB"}
	if c == nil {
		return f
	}
	f.Measured = fmt.Sprintf("%.1f MB = %d saves × %.1f kB + %d time floors × %.1f kB + %d unlocks × %.1f kB", c.day()/1e6,
		daySaves, c.PerSave/1e3, dayFloors, c.PerUnlock/unlockCommits/1e3, dayUnlocks, c.PerUnlock/1e3)
	f.Passed = c.PerSave > 0 && c.PerUnlock > 0 && c.day() <= cardLimit
	if c.PerUnlock == 0 {
		f.Why = "the folder of the data is on no disk: see -dir"
	}
	return f
}

// errCard ends the bench with an error: this figure is a count, and no matter of the
// machine's speed.
var errCard = errors.New("more is written to the card in a day than may be")
