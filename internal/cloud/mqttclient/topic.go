package mqttclient

import (
	"strings"
	"unicode/utf8"
)

// maxTopic bounds a topic, in bytes.
const maxTopic = 1024

// validTopic reports whether a message may bear the topic (MQTT 3.1.1, section 4.7).
func validTopic(topic string) bool {
	return topic != "" && len(topic) <= maxTopic && utf8.ValidString(topic) && !strings.ContainsAny(topic, "+#\x00")
}
