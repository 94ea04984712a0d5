package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// stationsJob is the first word to the role of the stations: who they are and
// how they answer.
type stationsJob struct {
	Address  string
	Lines    bool // raw TCP lines, for the floor, instead of MQTT
	Results  bool // MQTT: a "done" result after the PUBACK
	Toggle   bool // each result says that the lock has changed
	Stations []stationLogin
}

// stationLogin is what one station connects with. A user name left empty means
// no password either.
type stationLogin struct {
	ID       int
	ClientID string
	Username string
	Password string
}

// stationsOrder is what the harness asks of the stations afterwards.
type stationsOrder string

const (
	orderConnect stationsOrder = "connect" // all at once
	orderLeave   stationsOrder = "leave"   // all at once, as when the power fails
	orderCount   stationsOrder = "count"   // say what has been answered so far
)

// stationsReport answers every order, and the job.
type stationsReport struct {
	Connected int
	Failed    int           // in this order
	Failure   string        // the first
	Taken     time.Duration // from the order until the last station was connected
	Answered  int64         // commands, since the beginning
}

// stationPatience is how long a station tries to connect and subscribe.
const stationPatience = 15 * time.Second

// runStations is the role of the stations, all in this one process.
func runStations(b *boss) error {
	var job stationsJob
	if err := b.receive(&job); err != nil {
		return err
	}
	s := newStations(&job)
	go s.ping()
	if err := b.answer(stationsReport{}); err != nil {
		return err
	}
	for {
		var order stationsOrder
		if err := b.receive(&order); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := b.answer(s.obey(order)); err != nil {
			return err
		}
	}
}

// stationPack is all stations.
type stationPack struct {
	all      []*station
	answered atomic.Int64
	serving  sync.WaitGroup
}

// station is one; it dials anew at each order to connect.
type station struct {
	job   *stationsJob
	login stationLogin
	pack  *stationPack
	conn  atomic.Pointer[net.Conn] // nil while not connected
	serve func() error             // set by dial: answers until the connection ends
}

func newStations(job *stationsJob) *stationPack {
	pack := &stationPack{}
	for _, login := range job.Stations {
		pack.all = append(pack.all, &station{job: job, login: login, pack: pack})
	}
	return pack
}

func (s *stationPack) obey(order stationsOrder) stationsReport {
	report := stationsReport{}
	switch order {
	case orderConnect:
		report = s.connect()
	case orderLeave:
		s.leave()
	case orderCount:
	default:
		report.Failed, report.Failure = 1, "unknown order "+strconv.Quote(string(order))
	}
	for _, one := range s.all {
		if one.conn.Load() != nil {
			report.Connected++
		}
	}
	report.Answered = s.answered.Load()
	return report
}

// connect lets all stations loose at one moment and waits until each has its
// subscription, or has failed.
func (s *stationPack) connect() stationsReport {
	failures := make(chan error, len(s.all))
	loose := make(chan struct{})
	var dialing sync.WaitGroup
	for _, one := range s.all {
		dialing.Go(func() {
			<-loose
			if err := one.dial(); err != nil {
				failures <- fmt.Errorf("station %d: %w", one.login.ID, err)
			}
		})
	}
	began := time.Now()
	close(loose)
	dialing.Wait()
	report := stationsReport{Taken: time.Since(began), Failed: len(failures)}
	if report.Failed > 0 {
		report.Failure = (<-failures).Error()
	}
	for _, one := range s.all {
		if one.conn.Load() != nil {
			s.serving.Go(one.run)
		}
	}
	return report
}

// leave closes every connection without a word and waits until all are gone.
func (s *stationPack) leave() {
	for _, one := range s.all {
		if conn := one.conn.Load(); conn != nil {
			(*conn).Close()
		}
	}
	s.serving.Wait()
}

// ping keeps idle connections alive.
func (s *stationPack) ping() {
	for range time.Tick(mqttKeepAlive * time.Second / 3) {
		for _, one := range s.all {
			if conn := one.conn.Load(); conn != nil && !one.job.Lines {
				_, _ = (*conn).Write([]byte{mqttPing, 0})
			}
		}
	}
}

func (s *station) dial() error {
	if s.job.Lines {
		return s.dialLines()
	}
	m, err := mqttDial(s.job.Address, s.login, commandTopic(s.login.ID), stationPatience)
	if err != nil {
		return err
	}
	s.serve = func() error { return s.serveMQTT(m) }
	s.conn.Store(&m.conn)
	return nil
}

// run answers until the connection ends. That it ended shows in the count of
// connected stations.
func (s *station) run() {
	conn := *s.conn.Load()
	_ = s.serve()
	conn.Close()
	s.conn.Store(nil)
}

// serveMQTT acknowledges every command and, if so wanted, sends its result in
// the same write.
func (s *station) serveMQTT(m *mqttConn) error {
	var out []byte
	own := uint16(0) // the packet id of the results
	topic := resultTopic(s.login.ID)
	for {
		head, err := m.read()
		if err != nil {
			return err
		}
		if head&0xf0 != mqttPublish {
			continue // an answer to our own PINGREQ or PUBLISH
		}
		id, payload, err := published(head, m.body)
		if err != nil {
			return err
		}
		out = out[:0]
		if id != 0 {
			out = appendPuback(out, id)
		}
		if s.job.Results {
			own = own%0xffff + 1
			out = appendPublish(out, topic, own, doneResult(fieldOf(payload, "id"), s.job.Toggle && own%2 == 0))
		}
		if _, err := m.conn.Write(out); err != nil {
			return err
		}
		s.pack.answered.Add(1)
	}
}

func doneResult(id []byte, locked bool) []byte {
	status := "unlocked"
	if locked {
		status = "locked"
	}
	return []byte(`{"id":"` + string(id) + `","result":"done","lockId":"lock-1","status":"` + status + `"}`)
}

// dialLines connects to the floor: the first line says who it is, the line that
// comes back that it is taken.
func (s *station) dialLines() error {
	conn, err := net.DialTimeout("tcp", s.job.Address, stationPatience)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	in := bufio.NewReaderSize(conn, 512)
	_ = conn.SetDeadline(time.Now().Add(stationPatience))
	if _, err = conn.Write([]byte(strconv.Itoa(s.login.ID) + "\n")); err == nil {
		_, err = in.ReadSlice('\n')
	}
	if err != nil {
		conn.Close()
		return fmt.Errorf("announcing: %w", err)
	}
	s.serve = func() error { return s.serveLines(conn, in) }
	s.conn.Store(&conn)
	return conn.SetDeadline(time.Time{})
}

// serveLines answers each line with an empty one.
func (s *station) serveLines(conn net.Conn, in *bufio.Reader) error {
	yes := []byte("\n")
	for {
		if _, err := in.ReadSlice('\n'); err != nil {
			return err
		}
		if _, err := conn.Write(yes); err != nil {
			return err
		}
		s.pack.answered.Add(1)
	}
}
