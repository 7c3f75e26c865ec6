#!/bin/sh
# alarm.sh TO SUBJECT [TEXT]: hands one alarm to Fieldpost, and tries again until it has an answer. Needs curl.
#
# The Idempotency-Key makes the retry safe: if an answer was lost, the second try gets the same id, and nothing is queued twice.
# While the network is away, only the newest alarm of a subject waits for each person (collapse_key).
set -eu
to=${1:?alarm.sh TO SUBJECT [TEXT]}
subject=${2:?alarm.sh TO SUBJECT [TEXT]}
text=${3:-$subject}
url=${FIELDPOST_URL:-http://127.0.0.1:43770}/api/internal/messages
key=$(cat /proc/sys/kernel/random/uuid)
collapse=$(printf %s "$subject" | cksum | cut -d ' ' -f 1)

try=1
while :; do
  # A form needs no escapes, unlike JSON. --form-string takes the text as it is, also if it begins with @ or <.
  answer=$(curl --silent --show-error --max-time 30 --write-out '\n%{http_code}' --header "Idempotency-Key: $key" \
    --form-string "destination=$to" --form-string "subject=$subject" --form-string "plain=$text" \
    --form-string "priority=high" --form-string "collapse_key=$collapse" --form-string "collapse_count=true" \
    "$url") || answer=$(printf '\n000')
  status=${answer##*
}
  case $status in
    202)
      printf '%s\n' "${answer%
*}"
      exit 0
      ;;
    # No answer, a full queue or disk, a restart: later it may work.
    000 | 429 | 503 | 507) ;;
    *)
      printf '%s\n' "$answer" >&2
      exit 1
      ;;
  esac
  if [ "$try" -ge "${TRIES:-10}" ]; then
    printf '%s\n' "$answer" >&2
    exit 75
  fi
  sleep "$try"
  try=$((try + 1))
done
