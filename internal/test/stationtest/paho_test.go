package stationtest_test

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"gatehouse/internal/web/adminapi"
)

func TestOutage_paho(t *testing.T) {
	t.Parallel()
	survivesOutage(t, startPaho)
}

// startPaho starts a station with paho as firmware would: it connects again by itself, and
// keeps what was not acknowledged.
func startPaho(t *testing.T, address string, login adminapi.MQTTLogin) station {
	t.Helper()
	s := station{delivered: make(chan struct{}, 9), left: make(chan time.Duration, 1)}
	const stem = "stations/1042/"
	var kept atomic.Pointer[string]
	began := time.Now()
	uptime := func() int64 {
		return 5_000_000 + time.Since(began).Milliseconds() // real time: the station's own clock
	}
	report := func(age int64, door string) string {
		return fmt.Sprintf(`{"uptime":%d,"locks":[{"lockId":"lock-1","status":"locked","door":%q}]}`, uptime()-age, door)
	}
	command := func(c mqtt.Client, m mqtt.Message) {
		var command struct {
			ID       string
			NotAfter int64
		}
		if err := json.Unmarshal(m.Payload(), &command); err != nil {
			t.Error(err)
		}
		left, result := command.NotAfter-uptime(), "done"
		if left < 0 {
			result = "refused"
		}
		c.Publish(stem+"result", 1, false, fmt.Sprintf(`{"id":%q,"result":%q}`, command.ID, result))
		s.left <- time.Duration(left) * time.Millisecond
	}
	client := mqtt.NewClient(mqtt.NewClientOptions().
		AddBroker("tcp://" + address).SetClientID(login.ClientID).SetUsername(login.Username).SetPassword(login.Password).
		SetProtocolVersion(4).SetCleanSession(false).SetConnectRetry(true).
		SetConnectRetryInterval(50 * time.Millisecond).SetMaxReconnectInterval(50 * time.Millisecond).SetConnectTimeout(2 * time.Second).
		SetOnConnectHandler(func(c mqtt.Client) {
			c.Publish(stem+"report", 1, false, report(0, "closed"))
			if old := kept.Load(); old != nil {
				token := c.Publish(stem+"report", 1, false, *old)
				go func() {
					<-token.Done()
					s.delivered <- struct{}{}
				}()
			}
			c.Subscribe(stem+"command", 1, command)
		}))
	client.Connect()
	t.Cleanup(func() { client.Disconnect(0) })
	s.reportOld = func() {
		old := report(60_000, "open")
		kept.Store(&old)
		client.Publish(stem+"report", 1, false, old)
	}
	return s
}
