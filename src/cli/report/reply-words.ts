/**
 * Words that relays, clouds and the daemon itself use when a message cannot be sent. A report shows no other word of what
 * they say, because a reply may repeat an address, a name, or a part of the message.
 */
const WORDS = `
a about above accept accepted access account action active address again all allowed already an and another answer answers
any are as at attachment attempt attempts auth authenticated authentication authorized bad banned be because been before
bind blacklist blacklisted block blocked bounce broke broken but by bytes cannot certificate channel check closed cloud code
command commands complete completed configured connect connection content could credentials daemon data day days deferred
delayed deliver delivered delivery denied device disabled disk dkim dmarc dns does domain down during error exceed exceeded
exceeds exist exists expired failed failing fails failure fault fieldpost file files firewall for forbidden found from full gave
gateway get give given go goes greylist greylisted greylisting had has have header headers helo hold host hours id if in
incoming incorrect insufficient internal invalid ip is issue it its key known large last later leads less limit limited
limits line link list listed listens local lock login long lookup lost mail mailbox malformed many matches maximum may
message messages minute minutes missing more must name named network never no none not nothing now number octets of off
offline ok on one only open or other out over overloaded own parameter parameters parse party password perhaps permanent
permission permitted place please plain policy poor port problem protocol push queue queued quota rate reach reached read
reason receive received recipient recipients record refused refuses reject rejected rejects relay relaying release reply
reputation request required requires reset resolved resources restart retry retries reverse route router rule sasl scan
second seconds security see seen send sender sending sent sequence server service session several side sign size slow sms
smtp so some spam spf spool start starttls state still stop stopped storage store syntax system table take taken takes
temporarily temporary terminated than that the there they this time timed timeout timeouts tls to token too transaction
transfer transmission transient tried trouble try trying type unable unavailable unknown unreachable unrecognized
unsolicited until unverified up use used user users valid verification verified verify version via virus wait waiting wants
was way well were when which will with within without work working wrong yet you your
`;

const KNOWN: ReadonlySet<string> = new Set(WORDS.trim().split(/\s+/));

/** True for such a word, in any case. */
export function isReplyWord(word: string): boolean {
  return KNOWN.has(word.toLowerCase());
}
