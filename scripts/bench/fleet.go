package main

import (
	"context"
	"time"
)

const (
	fleetSize   = 1000 // stations
	fleetStorms = 6    // times that all of them connect at once
	fleetStarts = 10   // times that the gateway is started with them enrolled
	// fleetRest is left between storms, and before the memory is read: as short
	// as a switch or an access point takes to come back.
	fleetRest = time.Second
)

// fleet is what a gateway with many stations gave.
type fleet struct {
	Storms   []time.Duration `json:"stormsNs"` // from the first dial to the last SUBACK
	Failed   int             `json:"failed"`   // connections, in all storms
	Failure  string          `json:"failure,omitempty"`
	Resident int64           `json:"residentBytes"` // after the last storm
	Starts   []time.Duration `json:"startsNs"`      // from exec to READY=1
}

// measureFleet enrols many stations, lets them storm the gateway, reads its
// memory, and then starts it again and again.
func measureFleet(ctx context.Context, o options, dir string, r *report) error {
	p, err := newProduct(o.binary, dir, "fleet.data")
	if err != nil {
		return err
	}
	progress("fleet: enrolling %d stations", fleetSize)
	if err := p.start(ctx); err != nil {
		return err
	}
	defer p.stop()
	if err := p.provision(ctx, fleetSize); err != nil {
		return err
	}
	r.Fleet = &fleet{}
	if err := r.Fleet.storm(ctx, p); err != nil {
		return err
	}
	p.stop()
	progress("fleet: filling the journal with %d records", fleetRecords)
	if err := fillJournal(ctx, p.data); err != nil {
		return err
	}
	m, err := newManager(dir)
	if err != nil {
		return err
	}
	defer m.conn.Close()
	progress("fleet: starting %d times", fleetStarts)
	for range fleetStarts {
		taken, err := timeStart(ctx, p, m)
		if err != nil {
			return err
		}
		r.Fleet.Starts = append(r.Fleet.Starts, taken)
	}
	return nil
}

// storm connects all stations at once, again and again, and reads the memory
// while they are connected.
func (f *fleet) storm(ctx context.Context, p *product) error {
	stations, err := startRole(ctx, "stations", stationsJob{Address: p.mqtt, Stations: p.logins()}, &stationsReport{})
	if err != nil {
		return err
	}
	defer stations.stop()
	for n := range fleetStorms {
		if err := ctx.Err(); err != nil {
			return err
		}
		progress("fleet: storm %d of %d", n+1, fleetStorms)
		var report stationsReport
		if n > 0 {
			if err := stations.call(orderLeave, &report); err != nil {
				return err
			}
			time.Sleep(fleetRest)
		}
		if err := stations.call(orderConnect, &report); err != nil {
			return err
		}
		f.add(report)
		time.Sleep(fleetRest)
	}
	f.Resident = residentMemory(p.process.pid())
	var last stationsReport
	if err := stations.call(orderCount, &last); err != nil {
		return err
	}
	if lost := fleetSize - last.Connected; f.Failed == 0 && lost > 0 {
		f.Failed, f.Failure = lost, "dropped after it had connected"
	}
	return nil
}

func (f *fleet) add(report stationsReport) {
	f.Storms = append(f.Storms, report.Taken)
	f.Failed += report.Failed
	if f.Failure == "" {
		f.Failure = report.Failure
	}
}
