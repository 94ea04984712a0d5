package mqttclient

import (
	"strings"
	"unicode/utf8"
)

// maxTopic bounds a topic, in bytes.
const maxTopic = 1024

// validTopic reports whether a message may bear the topic (MQTT 3.1.1, section 4.7).
func validTopic(topic string) bool {
	return validText(topic) && !strings.ContainsAny(topic, "+#")
}

func validText(topic string) bool {
	return topic != "" && len(topic) <= maxTopic && utf8.ValidString(topic) && strings.IndexByte(topic, 0) < 0
}

// validFilter reports whether one may subscribe to it (MQTT 3.1.1, section 4.7.1). Shared
// subscriptions are no part of 3.1.1.
func validFilter(filter string) bool {
	if !validText(filter) || strings.HasPrefix(filter, "$share/") {
		return false
	}
	levels := strings.Split(filter, "/")
	for i, level := range levels {
		switch {
		case level == "#" && i == len(levels)-1, level == "+":
		case strings.ContainsAny(level, "+#"):
			return false
		}
	}
	return true
}

// matches reports whether the topic of a message is meant by a filter (MQTT 3.1.1,
// section 4.7).
func matches(filter, topic string) bool {
	if strings.HasPrefix(topic, "$") && !strings.HasPrefix(filter, "$") {
		return false
	}
	for {
		want, moreFilter, longer := strings.Cut(filter, "/")
		have, moreTopic, deeper := strings.Cut(topic, "/")
		switch {
		case want == "#":
			return true
		case want != "+" && want != have:
			return false
		case !longer || !deeper:
			return longer == deeper || moreFilter == "#" && !deeper
		}
		filter, topic = moreFilter, moreTopic
	}
}
