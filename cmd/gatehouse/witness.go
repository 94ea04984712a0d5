package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// witnessFlags name the witnesses of verify.
type witnessFlags struct {
	heads      []string // "SEQ:HASH"
	backup     string
	passphrase passphraseFlags
}

// witnesses returns those that the flags name and, for the gateway of this machine,
// those of its system log.
func (a *app) witnesses(ctx context.Context, flags witnessFlags, local bool) ([]journal.Witness, error) {
	var all []journal.Witness
	for _, text := range flags.heads {
		head, err := parseHead(text)
		if err != nil {
			return nil, wrongUsage(err)
		}
		all = append(all, journal.Witness{Source: "the head that was named", Head: head})
	}
	if flags.backup != "" {
		w, err := a.backupWitness(ctx, flags)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	if local {
		all = append(all, systemLogWitnesses(ctx)...)
	}
	return all, nil
}

// parseHead reads "SEQ:HASH".
func parseHead(text string) (journal.Head, error) {
	number, hash, _ := strings.Cut(text, ":")
	seq, err := strconv.ParseUint(number, 10, 63)
	sum, bad := hex.DecodeString(hash)
	if err != nil || bad != nil || len(sum) != 32 {
		return journal.Head{}, fmt.Errorf("--witness takes SEQ:HASH, the number of a record and 64 hexadecimal digits, not %q", text)
	}
	return journal.Head{Seq: seq, Hash: hex.EncodeToString(sum)}, nil
}

// backupWitness reads the head out of the manifest of a backup.
func (a *app) backupWitness(ctx context.Context, flags witnessFlags) (w journal.Witness, err error) {
	medium, err := backup.Open(flags.backup)
	if err != nil {
		return w, err
	}
	defer func() { _ = medium.Close() }()
	passphrase, err := a.passphrase(ctx, flags.passphrase, false)
	if err != nil {
		return w, err
	}
	m, err := medium.ReadManifest(ctx, passphrase)
	if err != nil {
		return w, err
	}
	if m.Holds.Head == "" {
		return w, fault.New(fault.Invalid, flags.backup+" was made by a former version, whose manifest has no head of the journal")
	}
	head := journal.Head{Seq: m.Holds.Last, Hash: m.Holds.Head}
	return journal.Witness{Source: "the backup " + flags.backup, Time: m.Created, Head: head}, nil
}

const (
	// logWitnesses is how many heads of the system log are compared: the newest, of some
	// years.
	logWitnesses = 1000

	// logLimit bounds reading the system log.
	logLimit = time.Minute
)

// systemLogWitnesses reads the heads that the gateway of this machine has written to the
// system log; none where there is no such log, or it may not be read.
func systemLogWitnesses(ctx context.Context) []journal.Witness {
	ctx, cancel := context.WithTimeout(ctx, logLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "journalctl", "_SYSTEMD_UNIT=gatehouse.service", "--grep="+journal.HeadMessage, //nolint:gosec // constants
		"--lines="+strconv.Itoa(logWitnesses), "--output=json", "--no-pager", "--quiet")
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	var all []journal.Witness
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		if w, ok := logWitness(lines.Bytes()); ok {
			all = append(all, w)
		}
	}
	return all
}

// headLine matches a head in a line of the gateway's log, in JSON or as text.
var headLine = regexp.MustCompile(regexp.QuoteMeta(journal.HeadMessage) + `.*?seq"?[=:](\d+).*?hash"?[=:]"?([0-9a-f]{64})`)

// logWitness reads a head out of an entry of the system log as JSON.
func logWitness(entry []byte) (w journal.Witness, ok bool) {
	var e struct {
		Message string `json:"MESSAGE"`
		Micros  string `json:"__REALTIME_TIMESTAMP"`
	}
	if json.Unmarshal(entry, &e) != nil {
		return w, false
	}
	found := headLine.FindStringSubmatch(e.Message)
	if found == nil {
		return w, false
	}
	head, err := parseHead(found[1] + ":" + found[2])
	micros, unknown := strconv.ParseInt(e.Micros, 10, 64)
	if err != nil || unknown != nil {
		return w, false
	}
	return journal.Witness{Source: "the system log", Time: site.At(time.UnixMicro(micros)), Head: head}, true
}

// printWitnesses prints how the witnesses of each source compare.
func printWitnesses(w *lines, all []journal.Testimony) {
	if len(all) == 0 {
		w.printf("No witness was found: the chain alone cannot show that the whole file was rewritten (--help names the witnesses).")
		return
	}
	words := map[journal.Statement]string{
		journal.Agrees:      "agrees with the journal",
		journal.Contradicts: "CONTRADICTS the journal",
		journal.Gone:        "is of records that were removed by age or size, or lost",
		journal.Superseded:  "is from before the gateway was restored from a backup, by its own journal",
	}
	type group struct {
		source string
		journal.Statement
	}
	var groups []group
	count := map[group]int{}
	for _, t := range all {
		g := group{t.Source, t.Statement}
		if count[g]++; count[g] == 1 {
			groups = append(groups, g)
		}
	}
	for _, g := range groups {
		w.printf("  %s (%s) %s.", printable(g.source), plural(count[g], "head"), words[g.Statement])
	}
}

// contradicted is the error of a journal that a witness contradicts; nil where none does.
func contradicted(v adminapi.Verdict) error {
	for _, t := range v.Witnesses {
		if t.Statement == journal.Contradicts {
			return fmt.Errorf("the journal was rewritten: %s has another record %d; keep a copy of the database as evidence, and find out who could write to it", t.Source, t.Seq)
		}
	}
	return nil
}
