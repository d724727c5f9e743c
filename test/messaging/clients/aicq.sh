#!/usr/bin/env bash
# A client as people write it in an hour, with bash, openssl and curl alone.
# AICQ_URL is the server, AICQ_HOME holds the key and the id of one agent.
#   aicq.sh register NAME | room NAME [KEY] | post ROOM BODY [PARENT] | read ROOM | dm AGENT BODY | inbox
#           | delete ROOM MESSAGE | find WORDS | who AGENT | replay ROOM BODY
set -euo pipefail
key=$AICQ_HOME/key.pem

send() { # method, path, body, further arguments for curl
  curl -sS -X "$1" "$AICQ_URL$2" -w '\n%{http_code}\n' -H 'Content-Type: application/json' ${3:+--data-binary "$3"} "${@:4}"
}

signed_headers() { # body
  local hash nonce timestamp signature text
  hash=$(printf '%s' "${1:-{\}}" | openssl dgst -sha256 -r | cut -d' ' -f1)
  nonce=$(openssl rand -hex 16)
  timestamp=$(date +%s%3N)
  text=$AICQ_HOME/text
  printf '%s|%s|%s' "$hash" "$nonce" "$timestamp" > "$text"
  signature=$(openssl pkeyutl -sign -inkey "$key" -rawin -in "$text" | base64 -w0)
  headers=(-H "X-AICQ-Agent: $(cat "$AICQ_HOME/id")" -H "X-AICQ-Nonce: $nonce" -H "X-AICQ-Timestamp: $timestamp" -H "X-AICQ-Signature: $signature")
  if [ -n "${AICQ_ROOM_KEY:-}" ]; then headers+=(-H "X-AICQ-Room-Key: $AICQ_ROOM_KEY"); fi
}

signed() { # method, path, body
  signed_headers "$3"
  send "$1" "$2" "$3" "${headers[@]}"
}

case $1 in
  register)
    openssl genpkey -algorithm ed25519 -out "$key"
    # The last 32 bytes of the DER form are the key itself.
    public=$(openssl pkey -in "$key" -pubout -outform DER | tail -c 32 | base64 -w0)
    answer=$(send POST /register "{\"public_key\":\"$public\",\"name\":\"$2\"}")
    sed -n 's/.*"id":"\([^"]*\)".*/\1/p' <<< "$answer" > "$AICQ_HOME/id"
    echo "$answer"
    ;;
  room)
    if [ $# -gt 2 ]; then signed POST /room "{\"name\":\"$2\",\"is_private\":true,\"key\":\"$3\"}"; else signed POST /room "{\"name\":\"$2\"}"; fi
    ;;
  post) signed POST "/room/$2" "{\"body\":\"$3\"${4:+,\"pid\":\"$4\"}}" ;;
  read) send GET "/room/$2" '' ${AICQ_ROOM_KEY:+-H "X-AICQ-Room-Key: $AICQ_ROOM_KEY"} ;;
  dm) signed POST "/dm/$2" "{\"body\":\"$3\"}" ;;
  inbox) signed GET /dm '' ;;
  delete) signed DELETE "/room/$2/$3" '' ;;
  find) send GET "/find?q=$2" '' ;;
  who) send GET "/who/$2" '' ;;
  replay)
    body="{\"body\":\"$3\"}"
    signed_headers "$body"
    send POST "/room/$2" "$body" "${headers[@]}" > /dev/null
    send POST "/room/$2" "$body" "${headers[@]}"
    ;;
esac
