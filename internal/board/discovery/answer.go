package discovery

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// lifetime is for how many seconds an answer may be kept, and shortLifetime for how many by a
// client that does not take part in multicast DNS (RFC 6762, 6.7).
const lifetime, shortLifetime = 120, 10

// records returns all that there is to answer on a link with these addresses.
func records(host string, services []Service, addresses []netip.Prefix) []dnsmessage.Resource {
	var all []dnsmessage.Resource
	add := func(name dnsmessage.Name, kind dnsmessage.Type, body dnsmessage.ResourceBody) {
		header := dnsmessage.ResourceHeader{Name: name, Type: kind, Class: dnsmessage.ClassINET, TTL: lifetime}
		all = append(all, dnsmessage.Resource{Header: header, Body: body})
	}
	for _, s := range services {
		kind, instance := local(s.Type), local(host, s.Type)
		add(kind, dnsmessage.TypePTR, &dnsmessage.PTRResource{PTR: instance})
		add(instance, dnsmessage.TypeSRV, &dnsmessage.SRVResource{Port: s.Port, Target: local(host)})
		add(instance, dnsmessage.TypeTXT, &dnsmessage.TXTResource{TXT: []string{s.Text}})
		add(local("_services._dns-sd._udp"), dnsmessage.TypePTR, &dnsmessage.PTRResource{PTR: kind}) // RFC 6763, 9
	}
	for _, prefix := range addresses {
		if addr := prefix.Addr(); addr.Is4() {
			add(local(host), dnsmessage.TypeA, &dnsmessage.AResource{A: addr.As4()})
		} else if !addr.IsLinkLocalUnicast() {
			add(local(host), dnsmessage.TypeAAAA, &dnsmessage.AAAAResource{AAAA: addr.As16()})
		}
	}
	return all
}

// local returns a name of the local network. One that is too long cannot be packed.
func local(labels ...string) dnsmessage.Name {
	name, _ := dnsmessage.NewName(strings.Join(labels, ".") + ".local.")
	return name
}

// answer returns the response to a packet, nil where that asks for none of the records. Those
// that it asks for come first. A plain client, which does not take part in multicast DNS, gets
// what a name server would send.
func answer(packet []byte, all []dnsmessage.Resource, plain bool) []byte {
	var query dnsmessage.Parser
	header, err := query.Start(packet)
	if err != nil || header.Response || header.OpCode != 0 {
		return nil
	}
	questions, err := query.AllQuestions()
	if err != nil {
		return nil
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{Response: true, Authoritative: true}}
	for _, record := range all {
		if plain {
			record.Header.TTL = shortLifetime
		}
		if slices.ContainsFunc(questions, func(q dnsmessage.Question) bool { return asks(q, record.Header) }) {
			reply.Answers = append(reply.Answers, record)
		} else {
			reply.Additionals = append(reply.Additionals, record)
		}
	}
	if len(reply.Answers) == 0 {
		return nil
	}
	if plain {
		reply.ID, reply.Questions = header.ID, questions
	}
	response, err := reply.Pack()
	if err != nil {
		return nil
	}
	return response
}

// asks reports whether a question asks for a record. "Any" of a name is what probes ask for,
// which only the owner of a name answers.
func asks(q dnsmessage.Question, record dnsmessage.ResourceHeader) bool {
	const unicast = 1 << 15 // whether a unicast answer would do (RFC 6762, 5.4)
	return q.Type == record.Type && q.Class&^unicast == dnsmessage.ClassINET &&
		strings.EqualFold(q.Name.String(), record.Name.String())
}
