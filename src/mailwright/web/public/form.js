/* Solves the proof of work of a sign-up form, while its visitor types. Without this script, a second page is shown. */
(() => {
  "use strict";
  const CONSTANTS = [];
  const INITIAL = [];
  const fraction = (value) => ((value - Math.floor(value)) * 4294967296) | 0;
  for (let candidate = 2; CONSTANTS.length < 64; candidate += 1) {
    let isPrime = true;
    for (let divisor = 2; divisor * divisor <= candidate; divisor += 1) if (candidate % divisor === 0) isPrime = false;
    if (!isPrime) continue;
    if (INITIAL.length < 8) INITIAL.push(fraction(Math.sqrt(candidate)));
    CONSTANTS.push(fraction(Math.cbrt(candidate)));
  }
  const turn = (value, bits) => (value >>> bits) | (value << (32 - bits));

  /** Return the first 32 bits of the SHA-256 of an ASCII text. */
  function firstBits(text) {
    const length = text.length;
    const words = new Int32Array((((length + 8) >> 6) + 1) * 16);
    for (let index = 0; index < length; index += 1) words[index >> 2] |= text.charCodeAt(index) << (24 - (index % 4) * 8);
    words[length >> 2] |= 0x80 << (24 - (length % 4) * 8);
    words[words.length - 1] = length * 8;
    const state = Int32Array.from(INITIAL);
    const schedule = new Int32Array(64);
    for (let block = 0; block < words.length; block += 16) {
      let [a, b, c, d, e, f, g, h] = state;
      for (let round = 0; round < 64; round += 1) {
        if (round < 16) schedule[round] = words[block + round];
        else {
          const early = schedule[round - 15];
          const late = schedule[round - 2];
          const mixed = turn(early, 7) ^ turn(early, 18) ^ (early >>> 3);
          const other = turn(late, 17) ^ turn(late, 19) ^ (late >>> 10);
          schedule[round] = (schedule[round - 16] + mixed + schedule[round - 7] + other) | 0;
        }
        const choice = (e & f) ^ (~e & g);
        const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + choice + CONSTANTS[round] + schedule[round]) | 0;
        const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
      }
      [a, b, c, d, e, f, g, h].forEach((value, index) => { state[index] = (state[index] + value) | 0; });
    }
    return state[0] >>> 0;
  }

  /** Try numbers in short turns, so that the page stays usable. */
  function solve(challenge, bits) {
    return new Promise((resolve) => {
      let number = 0;
      const work = () => {
        const until = number + 2000;
        for (; number < until; number += 1) {
          if (firstBits(`${challenge}:${number}`) >>> (32 - bits) === 0) return resolve(String(number));
        }
        setTimeout(work, 0);
      };
      work();
    });
  }

  function put(form, name, value) {
    let input = form.querySelector(`input[name="${name}"]`);
    if (!input) {
      input = document.createElement("input");
      input.type = "hidden";
      input.name = name;
      form.append(input);
    }
    input.value = value;
  }

  async function prepare(form) {
    let { challenge, bits } = form.dataset;
    if (!challenge) {
      const [path, query] = form.action.split("?");
      const response = await fetch(`${path}/challenge${query ? `?${query}` : ""}`, { credentials: "omit" });
      ({ challenge, bits } = await response.json());
    }
    const solution = await solve(challenge, Number(bits));
    put(form, "challenge", challenge);
    put(form, "solution", solution);
  }

  for (const form of document.querySelectorAll("form[data-mailwright]")) {
    let isReady = false;
    const preparing = prepare(form).catch(() => {}).then(() => { isReady = true; });
    form.addEventListener("submit", (event) => {
      if (isReady) return;
      event.preventDefault();
      preparing.then(() => form.submit());
    });
  }
})();
