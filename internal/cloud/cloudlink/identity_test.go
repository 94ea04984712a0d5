package cloudlink_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/cloudlink"
	"gatehouse/internal/cloud/cloudmqtt"
	"gatehouse/internal/cloud/cloudwire"
	"gatehouse/internal/health"
)

func (p *parts) raised(code health.Code) bool {
	return slices.ContainsFunc(p.health.Conditions(), func(c health.Condition) bool { return c.Code == code })
}

// Another gateway with this one's identity is noticed by its status, which it repeats;
// what an earlier process has left behind is not.
func TestLink_anotherGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, newHouse(), cloudlink.Settings{})
		synctest.Wait()
		if got := p.present().Optional; !slices.Equal(got, []string{"gateways/" + string(gatewayID) + "/status"}) {
			t.Errorf("subscribed also to %v", got)
		}
		p.tell(cloudwire.StatusLeaf, `{"status":"online","boot":"boot-1"}`, false) // its own
		p.tell(cloudwire.StatusLeaf, `{"status":"online","boot":"boot-0"}`, true)  // from before
		p.tell(cloudwire.StatusLeaf, `{"status":"offline"}`, false)
		said := len(p.on(cloudwire.StatusLeaf))
		p.tell(cloudwire.StatusLeaf, `{"status":"online","boot":"boot-0"}`, false) // late
		time.Sleep(3 * time.Second)
		if p.raised(health.CloudIdentity) {
			t.Error("it takes an earlier process for another gateway")
		}
		if len(p.on(cloudwire.StatusLeaf)) != said+1 {
			t.Error("it did not answer with its own status")
		}
		p.tell(cloudwire.StatusLeaf, `{"status":"online","boot":"boot-0"}`, false)
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
		p := run(t, newHouse(), cloudlink.Settings{})
		for n := range 4 {
			time.Sleep(6 * time.Minute)
			if p.raised(health.CloudIdentity) {
				t.Errorf("said after %d times", n)
			}
			p.end(cloudmqtt.ErrHungUp)
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
		p := run(t, newHouse(), cloudlink.Settings{}, func(p *parts) {
			p.dialling = func(cfg cloudmqtt.Config) error {
				if len(cfg.Optional) > 0 {
					return &cloudmqtt.DialError{Step: cloudmqtt.StepSubscribe, Err: cloudmqtt.ErrHungUp}
				}
				return nil
			}
		})
		time.Sleep(time.Minute)
		if len(p.attempts()) != 2 || !p.Status().Connected {
			t.Errorf("%d attempts, %+v", len(p.attempts()), p.Status())
		}
	})
}
