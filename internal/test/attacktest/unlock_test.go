package attacktest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// slowly is a station that takes its time over each command, one after the other, until
// its connection ends.
func slowly(ctx context.Context, station *gatewaytest.Station, each time.Duration) {
	for {
		c, err := station.NextCommand()
		if err != nil {
			return
		}
		wait(ctx, each)
		if station.TryAck(c) != nil {
			return
		}
	}
}

// unlockAs sends one unlock and returns its status, and whether it was a success.
func unlockAs(ctx context.Context, p *gatewaytest.Program, access, token string) (status int, opened bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.HTTP+"/v1/stations/"+token+"/locks/lock-1/unlock", nil)
	if err != nil {
		return 0, false
	}
	req.Header.Set("Authorization", "Bearer "+access)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, false
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct{ Success bool }
	_ = json.NewDecoder(resp.Body).Decode(&answer)
	return resp.StatusCode, answer.Success
}

// loginAs logs an account in.
func loginAs(t *testing.T, p *gatewaytest.Program, email string) (access string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"email": email, "password": gatewaytest.Password})
	if err != nil {
		t.Fatal(err)
	}
	answer := p.Do(http.MethodPost, "/v1/auth/login", "", body)
	var tokens struct{ AccessToken string }
	if err := json.Unmarshal(answer.Body, &tokens); err != nil || answer.Status != http.StatusOK {
		t.Fatalf("login: %d %s", answer.Status, answer.Body)
	}
	return tokens.AccessToken
}

// One account asked for so many unlocks that a station shared with others opened for
// nobody else, and that the journal was rotated out in minutes.
func TestAttack_unlockFlood(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{ // the bounds as shipped
		"GATEHOUSE_UNLOCK_ACCOUNT_RATE=1", "GATEHOUSE_UNLOCK_ACCOUNT_BURST=30", "GATEHOUSE_UNLOCK_ACCOUNT_PENDING=4",
	}})
	p.AddAccount()
	issued := p.Enrol(1042)
	if _, err := p.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: insider, Password: gatewaytest.Password}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Admin.Grant(t.Context(), insider, "1042", adminapi.GrantTerms{}); err != nil {
		t.Fatal(err)
	}
	owner, attacker := loginAs(t, p, gatewaytest.Email), loginAs(t, p, insider)
	station := p.Dial(issued.MQTT)
	var running sync.WaitGroup
	running.Go(func() { slowly(t.Context(), station, time.Second) })
	defer running.Wait()
	defer station.Close()

	began := time.Now()
	var refused, other atomic.Int64
	// Seventy commands of a second each are more than the minute that a command may live.
	stop := flood(t, 70, func(ctx context.Context, _, _ int) {
		switch status, _ := unlockAs(ctx, p, attacker, issued.StationToken); status {
		case http.StatusTooManyRequests:
			refused.Add(1)
		case http.StatusOK, 0:
		default:
			other.Add(1)
		}
	})
	for range 2 {
		if status, opened := unlockAs(t.Context(), p, owner, issued.StationToken); !opened {
			t.Errorf("the owner's unlock is answered with %d and did not open", status)
		}
	}
	await.Until(t, "an unlock is refused", func() bool { return refused.Load() > 0 })
	stop()
	if other.Load() > 0 {
		t.Errorf("%d unlocks were refused, %d otherwise answered", refused.Load(), other.Load())
	}
	p.AwaitRecord("the refusals are on record", func(r site.Record) bool { return r.Email == insider && r.Kind == site.KindThrottled })
	var attempts, summed int
	for _, r := range p.Records() {
		switch {
		case r.Email != insider:
		case r.Kind == site.KindUnlock && r.Outcome == site.Requested:
			attempts++
		case r.Kind == site.KindThrottled:
			summed++
		}
	}
	minutes := time.Since(began).Minutes() // real time: the longer it took, the more is allowed
	if most := 30 + int(minutes*60) + 1; attempts > most {
		t.Errorf("%d unlocks of one account stand in the journal, %d are allowed", attempts, most)
	}
	if summed > int(minutes)+1 {
		t.Errorf("%d records of refused unlocks in %.1f minutes", summed, minutes)
	}
}

// An account without any grant had the records of every made-up command id searched, as
// often as it liked, while the readers of all others waited. Now no record is searched for
// it: only commands in memory have an answer, and those of the account alone.
func TestAttack_commandLookup(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	access, _ := p.Login()
	for i := range 1000 {
		id := fmt.Sprintf("01890a5d-ac96-774b-bcce-b302099a8%03d", i)
		answer := p.Do(http.MethodGet, "/local/v1/commands/"+id, access, nil)
		if answer.Status != http.StatusNotFound {
			t.Fatalf("look-up %d was answered %d", i, answer.Status)
		}
	}
}
