package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi/client"
)

// verdict collects what is reported and what is wrong.
type verdict struct{ wrong []string }

func (v *verdict) say(name, format string, args ...any) {
	fmt.Printf("%-22s  %s\n", name, fmt.Sprintf(format, args...))
}

func (v *verdict) fail(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// report compares what came with what each gateway has, and prints it all.
func (f *fleet) report(ctx context.Context) error {
	v := &verdict{}
	fmt.Println()
	v.say("fleet", "%d gateways with %d stations each on %d NATS servers", len(f.gateways), f.options.stations, len(f.nodes))
	f.reportCommands(v)
	journals, err := f.journals(ctx)
	if err != nil {
		return err
	}
	f.application.end()
	f.reportRecords(v, journals)
	f.reportRecovery(v, journals)
	for _, odd := range f.application.odd {
		v.fail("the application received: %s", odd)
	}
	for _, wrong := range v.wrong {
		v.say("WRONG", "%s", wrong)
	}
	fmt.Println()
	if len(v.wrong) > 0 {
		return errors.New("not everything came through")
	}
	return nil
}

// journals returns the records of each gateway that the cloud has taken.
func (f *fleet) journals(ctx context.Context) (map[site.GatewayID][]site.Record, error) {
	all := make(map[site.GatewayID][]site.Record)
	for _, g := range f.gateways {
		status, err := g.admin.Status(ctx)
		if err != nil || status.Cloud == nil {
			return nil, errors.Join(err, errors.New("a gateway has no status"))
		}
		for r, err := range g.admin.Journal(ctx, client.JournalQuery{}) {
			if err != nil {
				return nil, err
			}
			if r.Seq <= status.Cloud.Delivered { // what is recorded from now on is another matter
				all[g.id] = append(all[g.id], r)
			}
		}
	}
	return all, nil
}

func (f *fleet) reportCommands(v *verdict) {
	f.application.mu.Lock()
	defer f.application.mu.Unlock()
	var before, after, calm []time.Duration
	outcomes := make(map[site.Outcome]int)
	answered, again, opened := 0, 0, 0
	for _, c := range f.application.sorted() {
		if c.times > 1 {
			again++
		}
		if c.answered.IsZero() {
			continue
		}
		answered++
		outcomes[c.outcome]++
		switch taken := c.answered.Sub(c.sent); {
		case c.answered.Before(f.killedAt):
			before = append(before, taken)
		case c.sent.After(f.killedAt.Add(f.after / 2)):
			calm = append(calm, taken)
		default:
			after = append(after, taken)
		}
	}
	for _, g := range f.gateways {
		opened += g.opened()
	}
	sent := len(f.application.commands)
	v.say("commands", "%d sent, %d answered: %v; %d were sent more than once", sent, answered, outcomes, again)
	v.say("locks opened", "%d times", opened)
	v.say("answer, before", "%s", percentiles(before))
	v.say("answer, at the kill", "%s", percentiles(after))
	v.say("answer, later", "%s", percentiles(calm))
	if answered < sent {
		v.fail("%d commands were not answered", sent-answered)
	}
	if opened != outcomes[site.Done] {
		v.fail("%d commands are done, and locks opened %d times", outcomes[site.Done], opened)
	}
}

func percentiles(taken []time.Duration) string {
	if len(taken) == 0 {
		return "none"
	}
	slices.Sort(taken)
	at := func(p float64) time.Duration {
		return taken[int(p*float64(len(taken)-1))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %s, p99 %s, longest %s, of %d", at(0.5), at(0.99), at(1), len(taken))
}

func (f *fleet) reportRecords(v *verdict, journals map[site.GatewayID][]site.Record) {
	a := f.application
	total, missing, others := 0, 0, 0
	for gateway, records := range journals {
		for i := range records {
			total++
			r := &records[i]
			switch got := a.records[recordKey{gateway, r.Seq, r.Boot}]; {
			case got == nil:
				missing++
			case string(got) != string(r.AppendJSON(nil)):
				others++
			}
		}
	}
	v.say("records", "%d in the journals, %d delivered once each, %d missing, %d twice after de-duplication", total, total-missing-others, missing, a.twice)
	if f.waiting > 0 {
		v.fail("%d gateways still have records that are not delivered", f.waiting)
	}
	if missing+others+a.twice > 0 {
		v.fail("%d records are missing, %d came as others, %d twice", missing, others, a.twice)
	}
}

// reportRecovery reads in the journals when gateways lost the killed node and were back.
func (f *fleet) reportRecovery(v *verdict, journals map[site.GatewayID][]site.Record) {
	var recovered []time.Duration
	var slowest []string
	lost := 0
	for gateway, records := range journals {
		down := false
		var story []string
		for i := range records {
			r := &records[i]
			if r.Time.Before(f.killedAt.Truncate(time.Millisecond)) {
				continue
			}
			if r.Kind == site.KindCloudOffline || r.Kind == site.KindCloudOnline {
				story = append(story, fmt.Sprintf("after %s %s %s", r.Time.Sub(f.killedAt).Round(100*time.Millisecond), r.Kind, r.Detail))
			}
			switch {
			case r.Kind == site.KindCloudOffline && !down:
				down = true
				lost++
			case r.Kind == site.KindCloudOnline && down:
				down = false
				recovered = append(recovered, r.Time.Sub(f.killedAt))
				if slices.Max(recovered) == recovered[len(recovered)-1] {
					slowest = story
				}
			}
		}
		if down {
			v.fail("gateway %s did not come back", gateway)
		}
	}
	v.say("recovery", "%d gateways lost their server, %d came back: %s after the kill", lost, len(recovered), percentiles(recovered))
	for _, line := range slowest {
		v.say("  the slowest", "%s", line)
	}
	if lost == 0 && f.hung > 0 {
		v.fail("no gateway noticed that a server was killed")
	}
}
