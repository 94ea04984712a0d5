package attacktest_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// What was possible: on a full disk, a change of a group took out one member and added
// another, whose account was removed as well. When there was room again, the store refused the
// member that was added, and with it the whole change: the other one was in the group again
// and opened the door. A revocation shares no transaction with what may be refused.
func TestAttack_revocationBesideRefused(t *testing.T) {
	disk := smallDisk(t)
	if disk == "" {
		return
	}
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: filepath.Join(disk, "data")})
	p.AddAccount()
	issued, err := p.Admin.AddStation(t.Context(), adminapi.NewStation{StationID: 1, Locks: 1})
	ctx, ann, bob, carl := t.Context(), site.Email(gatewaytest.Email), site.Email("bob@example.test"), site.Email("carl@example.test")
	of := func(all ...site.Email) adminapi.Members { return adminapi.Members{Accounts: all} }
	for _, email := range []site.Email{bob, carl} {
		_, failed := p.Admin.AddAccount(ctx, adminapi.NewAccount{Email: string(email), Password: gatewaytest.Password})
		err = errors.Join(err, failed)
	}
	_, added := p.Admin.ChangeGroup(ctx, "cleaners", adminapi.GroupPatch{Add: of(ann)})
	_, granted := p.Admin.Grant(ctx, "cleaners", "1", adminapi.GrantTerms{})
	if err := errors.Join(err, added, granted); err != nil {
		t.Fatal(err)
	}
	access, _ := p.Login()
	may := func(want int) {
		t.Helper()
		if got := p.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access, nil).Status; got != want {
			t.Errorf("status %d, want %d", got, want)
		}
	}
	may(http.StatusOK)
	filler := filepath.Join(disk, "fill")
	fill(t, filler)
	p.Await("the storage fails", func() bool {
		p.Unlock(access, issued.StationToken)
		return raised(p, health.StorageFailing)
	})
	if err := p.Admin.RemoveAccount(ctx, string(bob)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("on a full disk: %v", err)
	}
	_, both := p.Admin.ChangeGroup(ctx, "cleaners", adminapi.GroupPatch{Add: of(bob), Remove: of(ann)})
	if !fault.Is(both, fault.NotFound) {
		t.Errorf("adding an account that is removed: %v", both)
	}
	_, both = p.Admin.ChangeGroup(ctx, "cleaners", adminapi.GroupPatch{Add: of(carl), Remove: of(ann)})
	if removed := p.Admin.RemoveAccount(ctx, string(carl)); !fault.Is(both, fault.Unavailable) || !fault.Is(removed, fault.Unavailable) {
		t.Errorf("on a full disk: %v; %v", both, removed)
	}
	may(http.StatusNotFound)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	p.Await("it is stored", func() bool {
		_, err := p.Admin.ChangeGroup(ctx, "cleaners", adminapi.GroupPatch{Remove: of(ann)})
		return err == nil && stored(p, string(carl))
	})
	may(http.StatusNotFound)
	p.Kill()
	p.Start()
	p.AwaitReady()
	may(http.StatusNotFound)
	if groups, err := p.Admin.Groups(ctx); err != nil || len(groups) != 1 || len(groups[0].Accounts) != 0 {
		t.Errorf("%+v, %v", groups, err)
	}
}

// stored reports whether the removal of an account is in the journal.
func stored(p *gatewaytest.Program, email string) bool {
	for _, r := range p.Records() {
		if r.Kind == site.KindAccountRemoved && string(r.Email) == email {
			return true
		}
	}
	return false
}
