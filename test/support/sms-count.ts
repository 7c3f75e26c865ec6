/** What a phone network makes of a text, by the table of 3GPP TS 23.038. */

/** Beyond ASCII; 0x1b is the escape to the extension table. */
const NATIONAL = '£¥èéùìòÇØøÅåΔΦΓΛΩΠΨΣΘΞÆæßÉ¤¡ÄÖÑÜ§¿äöñüà';

/** True for a letter of one septet. */
export function isBasic(character: string): boolean {
  return (/[\n\r -~]/.test(character) && !/[`^{}\\[~\]|]/.test(character)) || NATIONAL.includes(character);
}

/** The number of SMS that a phone network makes of the text. */
export function smsCount(text: string): number {
  let septets = 0;
  for (const character of text) {
    if (isBasic(character)) septets += 1;
    else if (/[\^{}\\[~\]|€]/.test(character)) septets += 2;
    else return text.length <= 70 ? 1 : Math.ceil(text.length / 67);
  }
  return septets <= 160 ? 1 : Math.ceil(septets / 153);
}
