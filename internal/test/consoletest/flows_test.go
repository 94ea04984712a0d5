package consoletest_test

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	"gatehouse/internal/test/consoletest"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// The first run: the setup code of the log creates the administrator, who is signed in.
func TestSetup(t *testing.T) {
	t.Parallel()
	h := consoletest.NewEmptyHouse(t)
	code := regexp.MustCompile(`setup_code=(\S+)`).FindStringSubmatch(h.Log())
	if code == nil {
		t.Fatal("the log has no setup code")
	}
	tab := h.Tab(phone())
	tab.Open("/")
	look(tab, "setup")
	tab.Fill("Setup code", code[1])
	tab.Fill("E-mail", consoletest.Admin)
	tab.Fill("Password", gatewaytest.Password)
	tab.Click("button", "Create the administrator")
	tab.AwaitText("There is no station yet.")
	look(tab, "doors-empty")
}

// An administrator opens a door and sees how that ended, also where it did not open.
func TestUnlock(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	h.Station(1042, "North entrance", 1, nil)
	h.Station(1043, "Garage", 1, func(c *stationsim.Config) { c.Faults.Jam = 1 })
	tab := h.Tab(phone())
	tab.SignIn(consoletest.Admin)
	tab.Click("button", "Unlock: North entrance")
	tab.Await(`unlocked`)
	tab.Click("button", "Unlock: Garage")
	tab.Await(`document.querySelector('.why.bad')`)
	look(tab, "doors-used")
	h.AwaitRecord("the record of the unlock", func(r site.Record) bool {
		return r.Kind == site.KindUnlock && r.Station == 1042 && r.By == consoletest.Admin && r.Outcome == site.Done
	})
}

// An unlock that the station has only acknowledged opened nothing that anybody knows of: the
// sentence about it stays for a minute, and the journal says no more.
func TestUnlock_acknowledged(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	issued, err := h.Admin.AddStation(t.Context(), adminapi.NewStation{StationID: 1042, Name: "North entrance", Locks: 1})
	if err != nil {
		t.Fatal(err)
	}
	station := h.Dial(issued.MQTT)
	tab := h.Tab(phone())
	tab.SignIn(consoletest.Admin)
	tab.Click("button", "Unlock: North entrance")
	station.Ack(station.Command())
	tab.Await(`document.querySelector('.unlock.warn')?.innerText === 'Sent' && document.querySelector('.why.warn').innerText.includes('Sent, not confirmed')`)
	look(tab, "doors-acknowledged")
	passed := func(seconds int) { tab.Eval(fmt.Sprintf(`for (let i = 0; i < %d; i++) passSecond()`, seconds), nil) }
	passed(4)
	tab.Await(`document.querySelector('.unlock').innerText === 'Unlock' && document.querySelector('.why.warn').innerText.includes('Sent, not confirmed')`)
	passed(60)
	tab.Await(`!document.querySelector('.why')`)
	if text := tab.Text(); strings.Contains(text, "nlocked") || strings.Contains(text, "pened") {
		t.Errorf("the page says more than is known:\n%s", text)
	}

	tab.Visit("#/journal?show=unlocks")
	const line = consoletest.Admin + " sent an unlock to North entrance · "
	tab.AwaitText(line + "not confirmed")
	tab.Await(`document.querySelector('.entry').className.trim() === 'entry tinted'`)
	if text := tab.Text(); strings.Contains(text, consoletest.Admin+" opened") {
		t.Errorf("the journal says more than is known:\n%s", text)
	}
}

// A station that is connected and takes no commands is not called offline.
func TestUnlock_notSubscribed(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	issued, err := h.Admin.AddStation(t.Context(), adminapi.NewStation{StationID: 1042, Name: "North entrance", Locks: 1})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", h.MQTT)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	station := &gatewaytest.Station{T: t, Conn: conn, Login: issued.MQTT, Version: 4}
	if err := station.TryConnect(); err != nil {
		t.Fatal(err)
	}
	tab := h.Tab(phone())
	tab.SignIn(consoletest.Admin)
	tab.Click("button", "Unlock: North entrance")
	tab.Await(`document.querySelector('.why.bad')?.innerText === 'Connected, but not subscribed to its commands.'`)
	tab.Visit("#/journal?show=unlocks")
	tab.AwaitText("tried to open North entrance · not sent, connected, but not subscribed to its commands")
}

// From sign-in to "connected" by the keyboard alone, with at most 12 presses of Enter or
// Space; what the page shows is enough to connect the station.
func TestAddStation_byKeyboard(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	tab := h.Tab(phone())
	tab.Open("/")
	taps := 0
	press := func(name string) {
		tab.TabTo(name)
		tab.Press(kb.Enter)
		taps++
	}
	fill := func(name, text string) {
		tab.TabTo(name)
		tab.Type(text)
	}
	fill("E-mail", consoletest.Admin)
	fill("Password", gatewaytest.Password)
	press("Sign in")
	tab.AwaitText("There is no station yet.")
	press("Add a station")
	tab.Await(`document.querySelector('input[name=id]')`)
	fill("Name", "North entrance")
	press("Create its login")
	tab.AwaitText("Waiting for station")
	look(tab, "add-login")
	var secrets map[string]string
	tab.Eval(`Object.fromEntries([...document.querySelectorAll('.secret')].map(e => [e.querySelector('dt').innerText, e.querySelector('code').innerText]))`, &secrets)
	id, err := site.ParseStationID(strings.TrimPrefix(secrets["User name and client id"], "station-"))
	if err != nil {
		t.Fatalf("the page shows %v", secrets)
	}
	h.Play(id, secrets["Password"], 1, nil)
	tab.AwaitText("North entrance is connected")
	look(tab, "add-connected")
	press("Unlock")
	tab.Await(`unlocked`)
	if taps > 12 {
		t.Errorf("%d taps", taps)
	}
}

// An account that is no administrator sees its own doors, opens them, and nothing else;
// the end of its grant removes the door from the page.
func TestOrdinaryAccount(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	h.Station(1042, "North entrance", 1, nil)
	h.Station(1043, "Garage", 1, nil)
	h.Allow(1042, adminapi.GrantTerms{})
	tab := h.Tab(phone())
	tab.SignIn(consoletest.Porter)
	tab.AwaitText("North entrance")
	if text := tab.Text(); strings.Contains(text, "Garage") || strings.Contains(text, "People") {
		t.Errorf("the page shows\n%s", text)
	}
	look(tab, "porter")
	never, err := site.ParseSchedule(time.Now().UTC().AddDate(0, 0, 2).Weekday().String()[:3] + " 08:00-09:00")
	if err != nil {
		t.Fatal(err)
	}
	h.Allow(1043, adminapi.GrantTerms{Hours: never}) // closed, with no button that opens
	tab.AwaitText("opens again")
	tab.Await(`document.querySelector('[aria-label="Closed: Garage"]').getAttribute('aria-disabled') === 'true'`)
	if err := h.Admin.Ungrant(t.Context(), consoletest.Porter, "1043"); err != nil {
		t.Fatal(err)
	}
	tab.Visit("#/gateway") // of which it knows nothing
	tab.Await(`document.querySelector('h1').innerText === 'Doors'`)
	tab.Click("button", "Unlock: North entrance")
	tab.Await(`unlocked`)
	if err := h.Admin.Ungrant(t.Context(), consoletest.Porter, "1042"); err != nil {
		t.Fatal(err)
	}
	tab.AwaitText("You may not open any door right now.")
}

// A text of others is a text, wherever it is shown.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	const script = `<img src=x onerror="document.title='hacked'"><script>document.title='hacked'</script>`
	h.Station(1042, script, 2, nil)
	const email = `a&lt'/%2e?#{b}@example.test`
	if _, err := h.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: email, Password: gatewaytest.Password}); err != nil {
		t.Fatal(err)
	}
	tab := h.Tab(desktop())
	tab.SignIn(consoletest.Admin)
	for _, address := range []string{"#/doors", "#/station/1042", "#/people", "#/people/" + url.PathEscape(email), "#/journal", "#/gateway"} {
		tab.Visit(address)
		tab.Await(`document.title !== 'Gatehouse'`)
	}
	tab.Visit("#/doors")
	tab.AwaitText(script)
	tab.Visit("#/people")
	tab.AwaitText(email)
	tab.Click("a", email)
	tab.AwaitText("No door yet.")
	tab.Await(`!document.title.includes('hacked') && !document.querySelector('main img, main script')`)
}

// Everything about a person: added with a password that is shown once and works, allowed
// in at certain hours, signed in and signed out by the administrator, removed.
func TestPeople(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	h.Station(1042, "North entrance", 1, nil)
	const email = "new@example.test"
	tab := h.Tab(phone())
	tab.SignIn(consoletest.Admin)
	tab.Visit("#/people")
	tab.Click("button", "Add a person")
	look(tab, "person-add")
	tab.Fill("E-mail", email)
	tab.Click("dialog button", "Add")
	tab.AwaitText("shown this once")
	look(tab, "person-added")
	var password string
	tab.Eval(`[...document.querySelectorAll('.secret code')].at(-1).innerText`, &password)
	tab.Click("button", "Done")
	tab.Click("a", email)

	tab.Click("button", "Add a door")
	tab.Click("button", "Only at certain hours")
	look(tab, "grant")
	tab.Click("dialog button.primary", "Add")
	tab.AwaitText("Mon-Fri 08:00-18:00")
	grants, err := h.Admin.Grants(t.Context())
	if err != nil || len(grants) != 1 || grants[0].Hours.String() != "Mon-Fri 08:00-18:00" {
		t.Errorf("the grants are %+v, %v", grants, err)
	}

	// A grant for no hour of the week, such as one for holidays alone, keeps that when it is changed.
	never, err := site.ParseSchedule("none")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = h.Admin.Grant(t.Context(), email, "1042", adminapi.GrantTerms{Hours: never}); err != nil {
		t.Fatal(err)
	}
	tab.Visit("#/people")
	tab.Click("a", email)
	tab.Click("button", "Change North entrance")
	tab.AwaitText("At no hour.")
	tab.Choose("On holidays", "other")
	tab.Click("button", "Remove hours 1")
	tab.AwaitText("At any hour.")
	tab.Click("dialog button.primary", "Change")
	tab.AwaitText("at no hour · on holidays Mon-Sun 00:00-24:00")
	grants, err = h.Admin.Grants(t.Context())
	if err != nil || len(grants) != 1 || grants[0].Hours.String() != "none" || grants[0].Holidays.String() != "Mon-Sun 00:00-24:00" {
		t.Errorf("the grants are %+v, %v", grants, err)
	}

	theirs := h.Tab(phone())
	theirs.Open("/")
	theirs.Fill("E-mail", email)
	theirs.Fill("Password", password)
	theirs.Click("button", "Sign in")
	theirs.Await(`document.querySelector('.link.live')`)
	tab.Visit("#/people")
	tab.Click("a", email)
	tab.AwaitText("signed in")
	tab.Click("button", "End Chrome on Linux")
	theirs.AwaitText("Your session has ended.")
	tab.AwaitText("Nowhere.")

	// A new password ends their sessions, unless the box is unticked.
	theirs.Fill("E-mail", email)
	theirs.Fill("Password", password)
	theirs.Click("button", "Sign in")
	theirs.Await(`document.querySelector('.link.live')`)
	newPassword := func(tick string) {
		tab.Visit("#/people")
		tab.Click("a", email)
		tab.Click("button", "New password")
		tab.AwaitText("Sign out everywhere (1)")
		if tick != "" {
			tab.Click("label", tick)
		}
		look(tab, "person-password")
		tab.Click("dialog button", "Set the password")
	}
	newPassword("Sign out everywhere (1)")
	tab.AwaitText("The password is set. 0 sessions ended.")
	tab.Click("button", "Done")
	newPassword("")
	tab.AwaitText("The password is set. 1 session ended.")
	tab.Click("button", "Done")
	theirs.AwaitText("Your session has ended.")

	// One's own wants the present one.
	tab.Visit("#/people")
	tab.Click("a", consoletest.Admin)
	tab.Click("button", "New password")
	tab.Fill("Present password", "not my password")
	tab.Fill("Password", "another good password")
	tab.Click("dialog button", "Set the password")
	tab.AwaitText("This is not the password of your account")
	tab.Fill("Present password", gatewaytest.Password)
	tab.Click("dialog button", "Set the password")
	tab.AwaitText("The password is set. 0 sessions ended.")
	tab.Click("button", "Done")
	tab.Visit("#/people")
	tab.Click("a", email)

	tab.Click("button", "Remove North entrance")
	tab.AwaitText("No door yet.")
	tab.Click("button.danger", "Remove")
	tab.AwaitText("Remove this person?")
	look(tab, "person-remove")
	tab.Click("dialog button", "Remove")
	tab.Await(fmt.Sprintf(`location.hash === '#/people' && document.querySelector('.list') && !document.body.innerText.includes(%q)`, email))
}

// A group of people gets a door at other hours on holidays, which come from the page too.
func TestGroups(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	h.Station(1042, "North entrance", 1, nil)
	tab := h.Tab(phone())
	tab.SignIn(consoletest.Admin)
	tab.Visit("#/people")
	tab.Click("button", "Add holidays")
	tab.Fill("Name", "Christmas")
	tab.Fill("Dates", "12-25, 12-26")
	look(tab, "holidays-add")
	tab.Click("dialog button.primary", "Add")
	tab.AwaitText("12-25, 12-26")
	tab.Click("button", "Add a group")
	tab.Fill("Name", "Cleaners")
	tab.Click("dialog button.primary", "Add")
	tab.AwaitText("Another member")
	tab.Choose("Another member", consoletest.Porter)
	tab.Click("button.primary", "Add")
	tab.Await(`document.querySelector('.list')?.innerText.includes('porter@')`)
	tab.Click("button", "Add a door")
	tab.Choose("On holidays", "none")
	tab.Click("dialog button.primary", "Add")
	tab.AwaitText("not on holidays")
	look(tab, "group")
	grants, err := h.Admin.Grants(t.Context())
	if err != nil || len(grants) != 1 || grants[0].AccountGroup != "Cleaners" || grants[0].Holidays.String() != "none" {
		t.Errorf("the grants are %+v, %v", grants, err)
	}
	tab.Visit("#/people/" + consoletest.Porter)
	tab.AwaitText("Cleaners")
	tab.Visit("#/people")
	look(tab, "people-groups")
	tab.Visit("#/journal")
	tab.AwaitText("changed a group: " + consoletest.Porter)
	tab.AwaitText("let a group use North entrance")
	tab.Visit("#/people")
	tab.Click("button", "Add a token")
	tab.AwaitText("It sees every station")
	look(tab, "token")
}

// The journal is live, has one line for each unlock, and can be narrowed.
func TestJournal(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	h.Station(1042, "North entrance", 1, nil)
	h.Station(1043, "Garage", 1, nil)
	tab := h.Tab(phone())
	tab.SignIn(consoletest.Admin)
	tab.Visit("#/journal")
	tab.AwaitText("The gateway started")
	for _, id := range []site.StationID{1042, 1043} {
		if _, err := h.Admin.Unlock(t.Context(), id, 1); err != nil {
			t.Fatal(err)
		}
	}
	const opened = `[...document.querySelectorAll('.entry')].filter(e => e.innerText.includes('opened')).length`
	tab.Await(opened + " === 2")
	tab.Click("summary", "Filter")
	tab.Choose("Station", "1043")
	tab.Choose("Show", "unlocks")
	tab.Await(opened + ` === 1 && document.querySelectorAll('.entry').length === 1`)
	tab.Click("summary", "Garage")
	tab.AwaitText("commandId")
	look(tab, "journal-open")
	var table string
	tab.Eval(`fetch([...document.querySelectorAll('a[download]')][0].href).then(r => r.text())`, &table)
	if rows := strings.Count(table, "\r\n"); rows < 3 || !strings.HasPrefix(table, "seq,") || strings.Contains(table, ",1042,") {
		t.Errorf("the table is\n%s", table)
	}
}

// More records than fit on a page come on demand.
func TestJournal_older(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	for i := range 130 {
		if _, err := h.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: fmt.Sprintf("guest-%d@example.test", i), Password: gatewaytest.Password}); err != nil {
			t.Fatal(err)
		}
	}
	tab := h.Tab(phone())
	tab.SignIn(consoletest.Admin)
	tab.Visit("#/journal")
	tab.Await(`document.querySelectorAll('.entry').length >= 100`)
	if strings.Contains(tab.Text(), "The gateway started") {
		t.Error("all records came at once")
	}
	tab.Click("button", "Show older records")
	tab.AwaitText("The gateway started")
	var seqs []int
	tab.Eval(`[...document.querySelectorAll('.entry b')].map(e => Number(/guest-(\d+)@/.exec(e.innerText)?.[1] ?? -1)).filter(n => n >= 0)`, &seqs)
	if len(seqs) != 130 || seqs[0] != 129 || seqs[129] != 0 {
		t.Errorf("the accounts are %v", seqs)
	}
}

// The clock is accepted, a backup is saved, a restart that nobody would follow is refused,
// and all sessions are ended, this one too.
func TestGateway(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	tab := h.Tab(phone())
	tab.SignIn(consoletest.Admin)
	tab.Visit("#/gateway")
	tab.Click("summary", "Take a backup")
	tab.Fill("Passphrase", "four words nobody knows")
	tab.Fill("The passphrase again", "four words nobody knew")
	tab.Fill("Your password", "not my password")
	tab.Click("button", "Save the backup")
	tab.AwaitText("The passphrases differ")
	tab.Fill("The passphrase again", "four words nobody knows")
	tab.Click("button", "Save the backup")
	tab.AwaitText("This is not the password of your account")
	tab.Fill("Your password", gatewaytest.Password)
	tab.Click("button", "Save the backup")
	tab.AwaitText("among the downloads")
	h.AwaitRecord("the record of the backup", func(r site.Record) bool { return r.Kind == site.KindBackupTaken })
	tab.Click("button", "Restart the gateway")
	tab.AwaitText("This page says when it is back.")
	var middle int // of the dialog, off that of the window
	tab.Eval(`(({ top, bottom }) => Math.round(top + bottom - innerHeight))(document.querySelector('dialog').getBoundingClientRect())`, &middle)
	if middle < -2 || middle > 2 {
		t.Errorf("the dialog stands %d px beside the middle of the window", middle/2)
	}
	look(tab, "gateway-restart")
	tab.Click("dialog button", "Restart")
	tab.Await(`document.querySelector('dialog [role=alert]:not([hidden])')`)
	tab.Click("dialog button", "Cancel")
	tab.Click("button", "Accept the system")
	tab.AwaitText("Compare the system")
	look(tab, "gateway-clock")
	tab.Click("dialog button.primary", "Accept")
	tab.Await(`!document.querySelector('dialog') && document.body.innerText.includes('Trusted')`)
	tab.Click("button", "End all sessions")
	tab.AwaitText("Everyone has to sign in again, you too")
	tab.Click("dialog button", "End all sessions")
	tab.AwaitText("Your session has ended. Sign in again.")
}

// The list of sessions marks the one of this browser, and the other one is ended from here.
func TestSessions(t *testing.T) {
	t.Parallel()
	h := consoletest.NewHouse(t)
	tab, other := h.Tab(phone()), h.Tab(phone())
	other.SignIn(consoletest.Admin)
	tab.SignIn(consoletest.Admin)
	tab.Visit("#/people")
	tab.Click("a", consoletest.Admin)
	tab.AwaitText("Signed in")
	var rows []string
	list := `[...document.querySelectorAll('section[aria-label="Signed in"] li')].map((row) => row.innerText)`
	tab.Eval(list, &rows)
	row := `^Chrome on Linux%s\slast used .+ · signed in .+ from 127\.0\.0\.1`
	if len(rows) != 2 || !regexp.MustCompile(fmt.Sprintf(row, "")).MatchString(rows[0]) || !regexp.MustCompile(fmt.Sprintf(row, " · This device")).MatchString(rows[1]) {
		t.Errorf("the sessions are %q", rows)
	}
	look(tab, "person-sessions")
	tab.Click(`button[aria-label="End Chrome on Linux"]`, "End")
	other.AwaitText("Your session has ended.")
	tab.Await(list + `.length === 1`)
	tab.AwaitText("This device")
}
