/**
 * Leaves secrets out of texts: of the output of a task, of a message, of a string in a document. A value is a secret by
 * the name before it (`DB_PASSWORD=hunter2`, `--token abc`, `password: hunter2`), by its place in a URL or a header, or by
 * its own shape (`ghp_…`, the block of a private key). Text that only speaks of secrets stays.
 */
import { isSecretName, mayHaveSecretName } from './secret-names.js';

/** Stands for a secret. It is not a word, so nothing of it is indexed, and an excerpt shows it. */
const leftOut = '…';

/** What tokens and keys look like that have a known beginning. */
const knownShapes = [
  String.raw`[sr]k[-_](?=[\w-]{0,60}\d)[\w-]{16,}`, // OpenAI, Anthropic, Stripe
  String.raw`gh[a-z]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|gl(?:pat|dt|rt|ft|cbt|ptt|imt|soat|ffct|agent)-[\w-]{20,}`, // GitHub, GitLab
  String.raw`xox[a-z]-[\w-]{10,}|xapp-[\w-]{10,}`, // Slack
  String.raw`A[KS]IA[A-Z0-9]{16}|AIza[\w-]{35}|ya29\.[\w-]{20,}`, // Amazon, Google
  String.raw`(?:npm|hf)_[A-Za-z0-9]{30,}|pypi-AgE[\w-]{30,}|SG\.[\w-]{16,}\.[\w-]{16,}`,
  String.raw`stoa_[\w-]{43,}`,
  // JSON Web Tokens. After a hyphen none begins: a long text of beginnings would be read once for each of them.
  String.raw`(?<!-)eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*`,
];
const known = new RegExp(`(?<![A-Za-z0-9_])(?:${knownShapes.join('|')})`, 'g');
/** The block of a private key, to its end or to the end of the text. */
const privateKey =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----[^]*?(?:-----END [A-Z0-9 ]{0,60}-----|$)/g;
const passwordInUrl = /(:\/\/[^\s/:@]{0,100}:)[^\s/@]{1,200}(?=@)/g;
const afterBearer = /\b(bearer[ \t]+)(?=\S{0,200}[\d=])[\w.~+/-]{16,}=*/gi;

/**
 * What stands between a name and its value. It begins with what few places of a text have: a pattern that begins with the
 * name took 18 times as long.
 */
const afterName = new RegExp(
  [
    String.raw`(?::=|=>|=(?!=)|[:：])(?<=(?<![\p{L}\p{M}\p{N}_.-])(?<name>[\p{L}\p{M}\p{N}_.-]{2,100}`,
    String.raw`(?: (?:key|phrase|string|token)s?)?)[\\"'\x60\]]{0,3}[ \t]{0,3}(?::=|=>|[=:：]))[ \t]{0,3}`,
    String.raw`|[ \t](?<=(?<![\w-])(?<option>--[\w-]{2,100})[ \t])[ \t]{0,2}`,
  ].join(''),
  'giu',
);
/** To the quote that it begins with, or one word without the punctuation behind it. A quote that ends the name begins nothing. */
const valueHere =
  /(?<scheme>(?:bearer|basic|digest|token)[ \t]{1,3})?(?:(?<quote>\\?["'`])(?!\s|[.,;:)\]}]{1,3}(?:\s|$))(?<quoted>(?:(?!\k<quote>)(?:\\.|[^\n])){1,500})|(?<plain>[^\s"'`\\&]{0,500}[^\s"'`\\&,;.)\]}>]))/iuy;

/** `process.env.TOKEN`. A token can have points too, between longer parts. */
const member = /^[\p{L}_$][\w$]{0,22}(?:\.[\p{L}_$][\w$]{0,22})+$/u;
/** A reference to a value, a type, a call, or a word of a sentence. */
const notAValue = new RegExp(
  [
    String.raw`^(?:[$<{%*([…:-]|\.\.\.)`,
    String.raw`[$#]\{|\{\{|\(`,
    '^(?:null|none|nil|undefined|true|false|any|string|text|number|boolean|bytes|unknown|never|void)$',
    '^(?:required|optional|missing|option|flag|argument|parameter|and|or|is|to|for|from|with|in|of|the)$',
  ].join('|'),
  'iu',
);

export function withoutSecrets(text: string): string {
  let shown = text;
  if (mayHaveSecretName(text)) {
    if (text.includes('-----BEGIN ')) shown = shown.replace(privateKey, leftOut);
    shown = withoutNamed(shown.replace(afterBearer, `$1${leftOut}`));
  }
  if (shown.includes('://')) shown = shown.replace(passwordInUrl, `$1${leftOut}`);
  return shown.replace(known, leftOut);
}

/** Without the values of names such as `DB_PASSWORD`. */
function withoutNamed(text: string): string {
  let shown = '';
  let from = 0;
  for (const { 0: between, index, groups = {} } of text.matchAll(afterName)) {
    const { name = '', option } = groups;
    if (index < from || !isSecretName(option ?? name)) continue;
    valueHere.lastIndex = index + between.length;
    const { scheme, quoted, plain } = valueHere.exec(text)?.groups ?? {};
    const value = quoted ?? plain;
    if (value === undefined || notAValue.test(value)) continue;
    const isMarked = (quoted ?? scheme) !== undefined;
    if (!isMarked && member.test(value)) continue;
    const isSure = isMarked || option !== undefined || between === '=';
    const end = valueHere.lastIndex;
    if (!isSure && !isSecretLooking(value, text.slice(end, end + 10))) continue;
    shown += text.slice(from, end - value.length) + leftOut;
    from = end;
  }
  return shown + text.slice(from);
}

/** After `password: ` a sentence may begin: a value is not made of letters alone, or ends its line. */
function isSecretLooking(value: string, after: string): boolean {
  return value.length >= 4 && (!/^\p{L}+$/u.test(value) || /^[ \t,;)\]}]*(?:\n|$)/.test(after));
}
