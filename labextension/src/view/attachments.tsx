/** What goes along with a prompt: images as chips, and the mentions of which more is known. */

import * as React from 'react';

import type { IImage, ISize } from '../panel';
import { CrossIcon } from './icons';

/** Kinds of images that a model reads. */
const KINDS = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** A call carries 8 MB at most, in base64 with the rest; so many bytes of images fit well. */
export const MOST_BYTES = 5_000_000;

export interface IPicture extends IImage, ISize {
  readonly bytes: number;
}

/** Read dropped or pasted files. Those that are no image, or too large, are told in `refused`. */
export async function readPictures(
  files: readonly File[],
  had: readonly IPicture[]
): Promise<{ pictures: IPicture[]; refused: string }> {
  const pictures: IPicture[] = [];
  const refused: string[] = [];
  let bytes = had.reduce((sum, picture) => sum + picture.bytes, 0);
  for (const file of files) {
    if (!KINDS.includes(file.type)) {
      refused.push(
        `${file.name} is no image of a kind that a model reads. Mention it by its path.`
      );
    } else if (bytes + file.size > MOST_BYTES) {
      refused.push(`${file.name} is too large: 5 MB of images go along with a prompt.`);
    } else {
      bytes += file.size;
      pictures.push({
        media_type: file.type,
        name: file.name || 'image',
        data: toBase64(new Uint8Array(await file.arrayBuffer())),
        bytes: file.size,
        ...(await sizeOf(file))
      });
    }
  }
  return { pictures, refused: refused.join(' ') };
}

/** Return an image's size; of one that no browser draws, 0 by 0: the kernel says what is wrong. */
async function sizeOf(file: File): Promise<ISize> {
  const image = new Image();
  const address = URL.createObjectURL(file);
  image.src = address;
  try {
    await image.decode();
  } catch {
    return { width_px: 0, height_px: 0 };
  } finally {
    URL.revokeObjectURL(address);
  }
  return { width_px: image.naturalWidth, height_px: image.naturalHeight };
}

/** So many bytes become text at once; a call takes only so many arguments. */
const CHUNK = 0x8000;

function toBase64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += CHUNK) {
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  }
  return btoa(text);
}

export interface IChip {
  readonly label: string;
  readonly detail: string;
  readonly remove: () => void;
}

export function Chips({ chips }: { chips: readonly IChip[] }): React.ReactElement | null {
  return chips.length === 0 ? null : (
    <ul className="jctx-att" aria-label="Attachments">
      {chips.map(({ label, detail, remove }, at) => (
        <li key={`${at} ${label}`}>
          <code className="cut">{label}</code>
          <span className="quiet cut">{detail}</span>
          <button type="button" aria-label={`Remove ${label}`} onClick={remove}>
            <CrossIcon />
          </button>
        </li>
      ))}
    </ul>
  );
}

/** 340 KB */
export function formatBytes(bytes: number): string {
  return bytes < 1_000_000
    ? `${Math.max(1, Math.round(bytes / 1000))} KB`
    : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
