package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// leadIn runs before each window and is not counted.
const leadIn = 200 * time.Millisecond

// contender is one server, ready to be asked.
type contender struct {
	name     string
	address  string
	requests [][]byte // one per station
	want     string   // what a good answer's body contains
	pids     []int    // every process that belongs to the server
	stations *role    // nil if none are needed
}

// stack is what has been started; close ends it, the last first.
type stack []func()

func (s *stack) push(stop func()) { *s = append(*s, stop) }

func (s *stack) close() {
	for i := len(*s) - 1; i >= 0; i-- {
		(*s)[i]()
	}
}

// measureRequests measures the unlocks, then the reads.
func measureRequests(ctx context.Context, o options, dir string, load *role, r *report) error {
	var started stack
	defer started.close()
	var unlocks, reads []contender
	if o.wants("floor") {
		c, err := startFloor(ctx, o, dir, &started)
		if err != nil {
			return err
		}
		unlocks = append(unlocks, c)
	}
	if o.wants("gatehouse") || o.wants("reads") {
		ours, pair, err := startGatehouse(ctx, o, dir, &started)
		if err != nil {
			return err
		}
		if o.wants("gatehouse") {
			unlocks = append(unlocks, ours)
		}
		if o.wants("reads") {
			reads = pair
		}
	}
	if o.previous != "" {
		c, err := startPrevious(ctx, o, dir, &started)
		if err != nil {
			return err
		}
		unlocks = append(unlocks, c)
	}
	if o.wants("rival") {
		c, err := startRival(ctx, o, dir, &started)
		if errors.Is(err, errNoMosquitto) {
			r.note("no rival: %v", err)
		} else if err != nil {
			return err
		} else {
			unlocks = append(unlocks, c)
		}
	}
	if err := runRounds(ctx, o, load, "unlock", unlocks, []int{1, 8, 64}, r); err != nil {
		return err
	}
	if err := checkStations(unlocks, o.stations, r); err != nil {
		return err
	}
	return runRounds(ctx, o, load, "read", reads, []int{8, 64}, r)
}

// freeze stops the processes of the server, thaw lets them go on. One that is gone
// shows when it is asked. For a moment after a standstill the gateway opens no door for a
// request that may have come before it.
func (c contender) freeze() { c.signal(syscall.SIGSTOP) }

func (c contender) thaw() {
	c.signal(syscall.SIGCONT)
	time.Sleep(1500 * time.Millisecond)
}

func (c contender) signal(s syscall.Signal) {
	for _, pid := range c.pids {
		_ = syscall.Kill(pid, s)
	}
}

// runRounds lets the contenders take turns, in another order each round. The
// others are stopped, whatever they do of their own accord.
func runRounds(ctx context.Context, o options, load *role, kind string, contenders []contender, clients []int, r *report) error {
	if len(contenders) == 0 {
		return nil
	}
	for _, c := range contenders {
		progress("%s: warming up %s", kind, c.name)
		if _, err := ask(ctx, load, c, clients[len(clients)-1], time.Second); err != nil {
			return err
		}
	}
	watch := watchOthers(load, contenders)
	for _, c := range contenders {
		c.freeze()
		defer c.signal(syscall.SIGCONT)
	}
	for round := range o.rounds {
		progress("%s: round %d of %d", kind, round+1, o.rounds)
		for _, n := range clients {
			for i := range contenders {
				c := contenders[(round+i)%len(contenders)]
				c.thaw()
				result, err := ask(ctx, load, c, n, o.window)
				c.freeze()
				if err != nil {
					return err
				}
				r.Samples = append(r.Samples, sample{Kind: kind, Server: c.name, Clients: n, Round: round + 1, Result: result})
			}
		}
	}
	if share := watch(); share > tolerableShare {
		r.note("%ss: other processes took about %.0f %% of the processors meanwhile; measure again on an idle machine", kind, 100*share)
	}
	return nil
}

// tolerableShare of the processors may go to others, which includes the kernel's
// own threads that write our data.
const tolerableShare = 0.15

// watchOthers returns a function that tells which share of all processors has since
// gone to processes that have no part in the measurement.
func watchOthers(load *role, contenders []contender) func() float64 {
	pids := []int{os.Getpid(), load.pid()}
	for _, c := range contenders {
		pids = append(pids, c.pids...)
		if c.stations != nil {
			pids = append(pids, c.stations.pid())
		}
	}
	busy, all := processorTime()
	before := takeUsage(pids)
	return func() float64 {
		busyNow, allNow := processorTime()
		others := busyNow - busy - (takeUsage(pids).cpu - before.cpu)
		return others.Seconds() / (allNow - all).Seconds()
	}
}

// ask makes one measurement of one contender.
func ask(ctx context.Context, load *role, c contender, clients int, window time.Duration) (result loadResult, err error) {
	if err := ctx.Err(); err != nil {
		return result, err
	}
	job := loadJob{
		Address: c.address, Requests: c.requests, Want: c.want, Clients: clients,
		LeadIn: leadIn, Window: window, PIDs: c.pids,
	}
	if err := load.call(job, &result); err != nil {
		return result, err
	}
	if result.Done == 0 {
		return result, fmt.Errorf("%s answered nothing well with %d clients: %s", c.name, clients, result.Failure)
	}
	return result, nil
}

// checkStations makes sure that the answers were earned: that the stations heard
// at least as many commands as unlocks succeeded, and are all still there.
func checkStations(contenders []contender, stations int, r *report) error {
	for _, c := range contenders {
		var seen stationsReport
		if err := c.stations.call(orderCount, &seen); err != nil {
			return err
		}
		done := int64(0)
		for _, s := range r.Samples {
			if s.Kind == "unlock" && s.Server == c.name {
				done += int64(s.Result.Done)
			}
		}
		if seen.Answered < done {
			return fmt.Errorf("%s reported %d unlocks, but its stations answered only %d commands", c.name, done, seen.Answered)
		}
		if seen.Connected != stations {
			r.note("%s: only %d of %d stations were still connected in the end", c.name, seen.Connected, stations)
		}
	}
	return nil
}

// startStations starts the stations' process and connects them all.
func startStations(ctx context.Context, job stationsJob, started *stack) (*role, error) {
	stations, err := startRole(ctx, "stations", job, &stationsReport{})
	if err != nil {
		return nil, err
	}
	started.push(stations.stop)
	var report stationsReport
	if err := stations.call(orderConnect, &report); err != nil {
		return nil, err
	}
	if report.Failed > 0 {
		return nil, fmt.Errorf("connecting %d stations: %d failed: %s", len(job.Stations), report.Failed, report.Failure)
	}
	return stations, nil
}

// plainStations are the stations of the floor and the rival: numbered from 0,
// without passwords.
func plainStations(n int) []stationLogin {
	logins := make([]stationLogin, n)
	for i := range logins {
		logins[i] = stationLogin{ID: i, ClientID: fmt.Sprintf("station-%d", i)}
	}
	return logins
}

// plainRequests are the unlocks of the floor and the rival: the bytes of the
// gateway's, with a number for the station token and a bearer token that nobody
// reads.
func plainRequests(n int) [][]byte {
	requests := make([][]byte, n)
	for i := range requests {
		requests[i] = unlockRequest(fmt.Sprintf("%026d", i), strings.Repeat("x", 300))
	}
	return requests
}

func unlockRequest(stationToken, bearer string) []byte {
	return []byte("POST /v1/stations/" + stationToken + "/locks/lock-1/unlock HTTP/1.1\r\nHost: 127.0.0.1\r\n" +
		"Authorization: Bearer " + bearer + "\r\nContent-Length: 0\r\n\r\n")
}

func readRequest(stationToken, bearer string) []byte {
	return []byte("GET /v1/stations/" + stationToken + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" +
		"Authorization: Bearer " + bearer + "\r\n\r\n")
}

func startFloor(ctx context.Context, o options, dir string, started *stack) (contender, error) {
	var at serverAddresses
	server, err := startRole(ctx, "floor", serverJob{File: filepath.Join(dir, "floor.log"), Peers: o.stations}, &at)
	if err != nil {
		return contender{}, err
	}
	started.push(server.stop)
	stations, err := startStations(ctx, stationsJob{Address: at.Peers, Lines: true, Stations: plainStations(o.stations)}, started)
	return contender{
		name: "floor", address: at.HTTP, requests: plainRequests(o.stations), want: okBody,
		pids: []int{server.pid()}, stations: stations,
	}, err
}

func startRival(ctx context.Context, o options, dir string, started *stack) (contender, error) {
	broker, address, err := startMosquitto(ctx, dir)
	if err != nil {
		return contender{}, err
	}
	started.push(broker.stop)
	var at serverAddresses
	server, err := startRole(ctx, "rival", serverJob{File: filepath.Join(dir, "rival.db"), Broker: address}, &at)
	if err != nil {
		return contender{}, err
	}
	started.push(server.stop)
	stations, err := startStations(ctx, stationsJob{Address: address, Results: true, Stations: plainStations(o.stations)}, started)
	return contender{
		name: "rival", address: at.HTTP, requests: plainRequests(o.stations), want: okBody,
		pids: []int{server.pid(), broker.pid()}, stations: stations,
	}, err
}
