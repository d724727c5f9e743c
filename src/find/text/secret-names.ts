/** The names under which values hold secrets, in the spellings of programs: `db_password`, `clientSecret`, `X-Api-Key`. */

/** Nearly all names, and most texts, have none of these and need no closer look. */
const sign =
  /pass|pwd|secret|cred|jwt|key|token|bearer|authorization|cookie|mnemonic|phrase|connection|otp|kennwort|senha|contrase|парол|密码|密碼|パスワード|비밀번호/i;

/** For the words of a name in lower case, with one space between them. */
const secretWords = new RegExp(
  `(?:^| )(?:${[
    String.raw`\S*(?:pass ?word|passwd|passwort|pass ?phrase|pass ?code|secret|credential|apikey)s?`,
    'creds|pwd|jwts?|token|bearer|authorization|mnemonic|kennwort|senhas?|contraseñas?|парол[ьи]|密码|密碼|パスワード|비밀번호',
    '(?:api|private|access|auth|secret|signing|encryption|ssh|gpg|master|session|hmac|account|deploy|claude) ?keys?',
    '(?:access|refresh|auth|api|bearer|session|bot) ?tokens',
    '(?:seed|recovery) ?phrases?|connection ?strings?',
  ].join('|')})(?: (?:value|hash|confirmation|confirm|repeat|plain|pem|v))*$`,
);
const perhapsSecretWords = /(?:^| )(?:pass|cookies?|otp|totp)$/;

const humps = /(?<=[\p{Ll}\p{Nd}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu;
const betweenWords = /[^\p{L}\p{M}]+/gu;

/** Whether everything under this name is secret. */
export function isSecretName(name: string): boolean {
  return sign.test(name) && secretWords.test(wordsOf(name));
}

/** Whether a value of one word under this name may be a secret: `pass` is one of two words for it, and of many other things. */
export function mayNameSecret(name: string): boolean {
  return sign.test(name) && (secretWords.test(wordsOf(name)) || perhapsSecretWords.test(wordsOf(name)));
}

/** Whether a text can have such a name. */
export function mayHaveSecretName(text: string): boolean {
  return sign.test(text);
}

function wordsOf(name: string): string {
  return name.normalize('NFC').replace(humps, ' ').replace(betweenWords, ' ').trim().toLowerCase();
}
