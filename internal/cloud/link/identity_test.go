package link_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/health"
)

func (p *parts) raised(code health.Code) bool {
	return slices.ContainsFunc(p.health.Conditions(), func(c health.Condition) bool { return c.Code == code })
}

// Another gateway with this one's identity is noticed by its status, which it repeats;
// what an earlier process has left behind is not.
func TestLink_anotherGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, newHouse(), link.Settings{})
		synctest.Wait()
		if got := p.present().Optional; !slices.Contains(got, "gateways/"+string(gatewayID)+"/status") {
			t.Errorf("subscribed also to %v", got)
		}
		p.tell(api.StatusLeaf, `{"status":"online","boot":"boot-1"}`, false) // its own
		p.tell(api.StatusLeaf, `{"status":"online","boot":"boot-0"}`, true)  // from before
		p.tell(api.StatusLeaf, `{"status":"offline"}`, false)
		said := len(p.on(api.StatusLeaf))
		p.tell(api.StatusLeaf, `{"status":"online","boot":"boot-0"}`, false) // late
		time.Sleep(3 * time.Second)
		if p.raised(health.CloudIdentity) {
			t.Error("it takes an earlier process for another gateway")
		}
		if len(p.on(api.StatusLeaf)) != said+1 {
			t.Error("it did not answer with its own status")
		}
		p.tell(api.StatusLeaf, `{"status":"online","boot":"boot-0"}`, false)
		time.Sleep(2 * time.Second)
		if !p.raised(health.CloudIdentity) {
			t.Error("it does not notice another gateway")
		}
		time.Sleep(time.Hour)
		if p.raised(health.CloudIdentity) {
			t.Error("it is still said when the other is gone")
		}
	})
}

// Two gateways with one client id end each other's connection.
func TestLink_hungUpAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, newHouse(), link.Settings{})
		for n := range 4 {
			time.Sleep(6 * time.Minute)
			if p.raised(health.CloudIdentity) {
				t.Errorf("said after %d times", n)
			}
			p.end(mqttclient.ErrHungUp)
		}
		time.Sleep(2 * time.Second)
		if !p.raised(health.CloudIdentity) {
			t.Error("not said")
		}
		time.Sleep(time.Hour)
		if p.raised(health.CloudIdentity) {
			t.Error("still said an hour later")
		}
	})
}

// A broker that ends the connection of a gateway that subscribes to its own status is not
// asked for that again.
func TestLink_noRightToItsOwnStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, newHouse(), link.Settings{}, func(p *parts) {
			p.dialling = func(cfg mqttclient.Config) error {
				if len(cfg.Optional) > 0 {
					return &mqttclient.DialError{Step: mqttclient.StepSubscribe, Err: mqttclient.ErrHungUp}
				}
				return nil
			}
		})
		time.Sleep(time.Minute)
		if len(p.attempts()) != 3 || !p.Status().Connected {
			t.Errorf("%d attempts, %+v", len(p.attempts()), p.Status())
		}
	})
}
