// A client with Go's standard library alone: the same commands as aicq.sh, the same answers.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// What a client reads out of answers. A field of another type is an error here.
type registered struct {
	ID         string `json:"id"`
	ProfileURL string `json:"profile_url"`
}

type agent struct {
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"`
	Email     string    `json:"email,omitempty"`
	PublicKey string    `json:"public_key"`
	JoinedAt  time.Time `json:"joined_at"`
}

type room struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	IsPrivate bool   `json:"is_private"`
}

type message struct {
	ID        string `json:"id"`
	From      string `json:"from"`
	Body      string `json:"body"`
	ParentID  string `json:"pid,omitempty"`
	Timestamp int64  `json:"ts"`
	RoomID    string `json:"room_id,omitempty"`
	RoomName  string `json:"room_name,omitempty"`
}

type page struct {
	Room     room      `json:"room"`
	Messages []message `json:"messages"`
	HasMore  bool      `json:"has_more"`
}

type found struct {
	Query   string    `json:"query"`
	Results []message `json:"results"`
	Total   int       `json:"total"`
}

type answer struct {
	status int
	text   []byte
}

var (
	server = os.Getenv("AICQ_URL")
	home   = os.Getenv("AICQ_HOME")
)

func main() {
	given := append(os.Args[1:], "", "", "")
	said, shape := run(given[0], given[1:])
	if said.status >= 400 {
		shape = &struct {
			Error string `json:"error"`
		}{}
	}
	if shape != nil {
		check(json.Unmarshal(said.text, shape))
	}
	fmt.Println(string(said.text))
	fmt.Println(said.status)
}

func run(command string, given []string) (answer, any) {
	switch command {
	case "register":
		return register(given[0]), &registered{}
	case "who":
		return send("GET", "/who/"+given[0], nil, nil), &agent{}
	case "room":
		// Go writes the keys of a map in order, and a struct's as they stand.
		value := map[string]any{"name": given[0]}
		if given[1] != "" {
			value["is_private"], value["key"] = true, given[1]
		}
		return signed("POST", "/room", encode(value)), &room{}
	case "post":
		return signed("POST", "/room/"+given[0], encode(message{Body: given[1], ParentID: given[2]})), &message{}
	case "read":
		return send("GET", "/room/"+given[0], nil, roomKey()), &page{}
	case "dm":
		return signed("POST", "/dm/"+given[0], encode(map[string]string{"body": given[1]})), &message{}
	case "inbox":
		// Some clients send the two bytes that they sign.
		return signed("GET", "/dm", []byte("{}")), &page{}
	case "delete":
		return signed("DELETE", "/room/"+given[0]+"/"+given[1], nil), nil
	case "find":
		return send("GET", "/find?"+url.Values{"q": {given[0]}, "limit": {"20"}}.Encode(), nil, nil), &found{}
	case "replay":
		body := encode(map[string]string{"body": given[1]})
		headers := signature(body)
		send("POST", "/room/"+given[0], body, headers)
		return send("POST", "/room/"+given[0], body, headers), nil
	}
	panic("unknown command " + command)
}

func register(name string) answer {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	check(err)
	check(os.WriteFile(filepath.Join(home, "seed"), private.Seed(), 0o600))
	said := send("POST", "/register", encode(map[string]string{"public_key": base64.StdEncoding.EncodeToString(public), "name": name}), nil)
	var made registered
	check(json.Unmarshal(said.text, &made))
	check(os.WriteFile(filepath.Join(home, "id"), []byte(made.ID), 0o600))
	return said
}

// Escapes <, > and & in the body, as Go does unless it is told not to.
func encode(value any) []byte {
	text, err := json.Marshal(value)
	check(err)
	return text
}

func signed(method, path string, body []byte) answer {
	return send(method, path, body, signature(body))
}

func signature(body []byte) http.Header {
	seed, err := os.ReadFile(filepath.Join(home, "seed"))
	check(err)
	id, err := os.ReadFile(filepath.Join(home, "id"))
	check(err)
	random := make([]byte, 16)
	_, err = rand.Read(random)
	check(err)
	nonce, timestamp := hex.EncodeToString(random), fmt.Sprint(time.Now().UnixMilli())
	if len(body) == 0 {
		body = []byte("{}")
	}
	hash := sha256.Sum256(body)
	text := strings.Join([]string{hex.EncodeToString(hash[:]), nonce, timestamp}, "|")
	headers := roomKey()
	headers.Set("X-AICQ-Agent", string(id))
	headers.Set("X-AICQ-Nonce", nonce)
	headers.Set("X-AICQ-Timestamp", timestamp)
	headers.Set("X-AICQ-Signature", base64.StdEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(seed), []byte(text))))
	return headers
}

func roomKey() http.Header {
	headers := http.Header{}
	if key := os.Getenv("AICQ_ROOM_KEY"); key != "" {
		headers.Set("X-AICQ-Room-Key", key)
	}
	return headers
}

// A reader whose length Go does not know is sent in chunks; an answer may come compressed.
func send(method, path string, body []byte, headers http.Header) answer {
	var reader io.Reader
	if len(body) > 0 {
		reader = struct{ io.Reader }{bytes.NewReader(body)}
	}
	request, err := http.NewRequest(method, server+path, reader)
	check(err)
	for name, values := range headers {
		request.Header[name] = values
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	check(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	check(err)
	return answer{response.StatusCode, text}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
