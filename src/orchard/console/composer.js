// The field for a message, with what is attached to it.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { call } from "./api.js";
import { bytes, Icon, IconButton } from "./ui.js";

const SOUND_FORMATS = { "audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/flac": "flac", "audio/x-flac": "flac" };

const mediumOf = (file) => (/^(image|audio|video)\//.test(file.type) ? file.type.split("/")[0] : "document");

const readDataUrl = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });

async function transcribe(file, models) {
  const model = models.find((each) => each.kind === "transcription");
  if (!model) throw new Error("No model here transcribes speech: serve one, such as demo-whisper.");
  const form = new FormData();
  form.append("model", model.id);
  form.append("file", file, file.name);
  return (await call("/v1/audio/transcriptions", { body: form })).text.trim();
}

// The part of a message for a file, in the form of the Responses API.
async function partOf(file, medium) {
  const url = await readDataUrl(file);
  if (medium === "image") return { type: "input_image", image_url: url };
  if (medium === "video") return { type: "input_video", video_url: url };
  if (medium === "audio") return { type: "input_audio", input_audio: { data: url.split(",")[1], format: SOUND_FORMATS[file.type] } };
  return { type: "input_file", filename: file.name, file_data: file.type ? url : url.replace(/^data:[^;,]*/, "data:text/plain") };
}

const WORDS = { image: "pictures", video: "videos", audio: "sound", document: "documents" };

let draft = { text: "", files: [] }; // it stays while another page is shown, or another key is entered

export function Composer({ model, models, ready, busy, onSend, onStop, onProblem, onModel, registerDrop }) {
  const [text, setText] = useState(draft.text);
  const [files, setFiles] = useState(draft.files);
  const [work, setWork] = useState("");
  const field = useRef();
  const picker = useRef();
  const inputs = model?.architecture?.input_modalities ?? ["text"];

  useLayoutEffect(() => { draft = { text, files }; }, [text, files]);
  useEffect(() => {
    field.current.style.height = "auto";
    field.current.style.height = `${Math.min(field.current.scrollHeight, 240)}px`;
  }, [text]);
  useLayoutEffect(() => field.current.focus(), []);

  const add = async (list) => {
    for (const file of list) {
      const medium = mediumOf(file);
      try {
        if (medium === "audio" && !(inputs.includes("audio") && SOUND_FORMATS[file.type])) {
          setWork(`Transcribing ${file.name}`);
          const heard = await transcribe(file, models);
          setText((before) => [before, heard].filter(Boolean).join(" "));
          field.current.focus();
        } else if (medium !== "document" && !inputs.includes(medium)) {
          const other = models.find((each) => each.architecture.input_modalities.includes(medium) && each.kind !== "transcription");
          if (!other) throw new Error(`No model here takes ${WORDS[medium]}.`);
          onModel(other.id);
          onProblem(`${model?.id ?? "The model"} takes no ${WORDS[medium]}: ${other.id} answers now.`, "info");
          const part = await partOf(file, medium);
          setFiles((before) => [...before, { file, medium, part }]);
        } else {
          const part = await partOf(file, medium);
          setFiles((before) => [...before, { file, medium, part }]);
        }
      } catch (error) {
        onProblem(error.message);
      } finally {
        setWork("");
      }
    }
  };
  useEffect(() => registerDrop(add));

  const submit = async () => {
    const written = field.current.value; // keys may come faster than the page is drawn
    const said = written.trim();
    if (!ready || busy || work || (!said && !files.length)) return;
    setText("");
    setFiles([]);
    if (await onSend([...files.map((each) => each.part), ...(said ? [{ type: "input_text", text: said }] : [])])) return;
    setText((now) => now || written);
    setFiles((now) => (now.length ? now : files));
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  };
  const onPaste = (event) => {
    const pasted = [...event.clipboardData.files];
    if (pasted.length) {
      event.preventDefault();
      add(pasted);
    }
  };

  return html`<form class="composer" onSubmit=${(event) => { event.preventDefault(); submit(); }}>
    ${files.length > 0 && html`<ul class="attachments" aria-label="Attached files">
      ${files.map((each, index) => html`<li>
        ${each.medium === "image" ? html`<img src=${each.part.image_url} alt="" />` : html`<${Icon} name="attach" />`}
        <span>${each.file.name} <small>${bytes(each.file.size)}</small></span>
        <${IconButton} icon="close" label=${`Remove ${each.file.name}`} onClick=${() => setFiles(files.filter((_, place) => place !== index))} />
      </li>`)}
    </ul>`}
    ${work && html`<p class="work" role="status">${work}…</p>`}
    <textarea ref=${field} rows="1" aria-label="Message" placeholder=${model ? `Message ${model.id}` : "Message"} value=${text}
      onInput=${(event) => setText(event.target.value)} onKeyDown=${onKeyDown} onPaste=${onPaste}></textarea>
    <div class="bar">
      <input ref=${picker} type="file" multiple hidden aria-label="Files" onChange=${(event) => { add([...event.target.files]); event.target.value = ""; }} />
      <${IconButton} icon="attach" label="Attach files" onClick=${() => picker.current.click()} />
      <${Recorder} onRecording=${(file) => add([file])} onProblem=${onProblem} />
      <span class="grow"></span>
      ${busy
        ? html`<button type="button" class="round" aria-label="Stop" title="Stop (Esc)" onClick=${onStop}><${Icon} name="stop" /></button>`
        : html`<button type="submit" class="round primary" aria-label="Send" title="Send (Enter)" disabled=${!text.trim() && !files.length}><${Icon} name="send" /></button>`}
    </div>
  </form>`;
}

// Records from the microphone, which browsers give only to pages of this machine or with TLS.
function Recorder({ onRecording, onProblem }) {
  const [recorder, setRecorder] = useState(null);
  if (!navigator.mediaDevices) return null;
  const begin = async () => {
    try {
      const source = await navigator.mediaDevices.getUserMedia({ audio: true });
      const made = new MediaRecorder(source);
      const pieces = [];
      made.ondataavailable = (event) => pieces.push(event.data);
      made.onstop = async () => {
        source.getTracks().forEach((track) => track.stop());
        setRecorder(null);
        onRecording(new File([await asWav(new Blob(pieces))], "recording.wav", { type: "audio/wav" }));
      };
      made.start();
      setRecorder(made);
    } catch (error) {
      onProblem(`The microphone can't be used: ${error.message}`);
    }
  };
  return recorder
    ? html`<${IconButton} icon="stop" label="End the recording" class="icon-button live" onClick=${() => recorder.stop()} />`
    : html`<${IconButton} icon="mic" label="Record" onClick=${begin} />`;
}

// Models read WAV, at 16 kHz and with one channel.
async function asWav(blob) {
  const context = new AudioContext();
  const sound = await context.decodeAudioData(await blob.arrayBuffer());
  context.close();
  const mixer = new OfflineAudioContext(1, Math.ceil(sound.duration * 16000), 16000);
  const player = mixer.createBufferSource();
  player.buffer = sound;
  player.connect(mixer.destination);
  player.start();
  const samples = (await mixer.startRendering()).getChannelData(0);
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const write = (place, letters) => [...letters].forEach((letter, index) => view.setUint8(place + index, letter.charCodeAt(0)));
  write(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, 16000, true);
  view.setUint32(28, 32000, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  write(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, index) => view.setInt16(44 + 2 * index, Math.max(-1, Math.min(1, sample)) * 32767, true));
  return new Blob([view], { type: "audio/wav" });
}
