# SPDX-License-Identifier: BSD-3-Clause
"""Models of Hugging Face's transformers, as they are but small: a row each, nothing is downloaded.

Dropout is off, so that numbers can be compared. `stock_models.families()` lists them with the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stock_inputs import (
    SIZE,
    WORDS,
    Inputs,
    boxes,
    captioned,
    long_text,
    masked_pictures,
    noise,
    pairs,
    picture,
    segments,
    series,
    spans,
    spectra,
    text,
    video,
    waves,
    words,
)

__all__ = ["GENERATE", "ROWS", "Row"]


@dataclass(frozen=True)
class Row:
    """`model(config(**options))`, called with `inputs`; `note` says what of it is random.

    `double`: in float32 three steps on the CPU and with a bit changed differ by more than a percent.
    """

    model: str
    config: str
    options: dict[str, Any]
    inputs: Inputs = text
    note: str = ""
    double: bool = False


IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
LAYERS = WIDTH | {"intermediate_size": 64}
PLACES = {"max_position_embeddings": 64}
CAUSAL = IDS | LAYERS | PLACES | {"vocab_size": WORDS}
GROUPED = CAUSAL | {"num_key_value_heads": 2}
DRY = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ENCODER = CAUSAL | DRY
VISION = LAYERS | DRY | {"image_size": SIZE, "patch_size": 8, "num_labels": 5}
BOTH = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "dropout": 0.0,
    "d_model": 32,
}
DECODER = IDS | BOTH | PLACES | {"vocab_size": WORDS, "decoder_start_token_id": 2}
DECODER |= {"forced_eos_token_id": None, "attention_dropout": 0.0, "activation_dropout": 0.0}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "output_router_logits": True}
CONVOLUTIONS = {
    "conv_dim": (16, 16, 16),
    "conv_stride": (5, 4, 4),
    "conv_kernel": (10, 8, 4),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
SOUND = LAYERS | CONVOLUTIONS | {"vocab_size": 32, "final_dropout": 0.0, "layerdrop": 0.0}
SOUND |= {"hidden_dropout": 0.0, "attention_dropout": 0.0, "feat_proj_dropout": 0.0}
SOUND |= {"activation_dropout": 0.0}
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
MASKED = "masks in time are numpy's, of its seed"
TOWERS = {
    "text_config": IDS | LAYERS | PLACES | {"vocab_size": WORDS},
    "vision_config": LAYERS | {"image_size": SIZE, "patch_size": 8},
}

ROWS: dict[str, Row] = {
    # ---- words, one after the other
    "gpt2": Row(
        "GPT2LMHeadModel",
        "GPT2Config",
        IDS
        | {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
        | {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    ),
    "llama": Row("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "mistral": Row("MistralForCausalLM", "MistralConfig", GROUPED | {"sliding_window": 8}),
    "mixtral": Row("MixtralForCausalLM", "MixtralConfig", GROUPED | EXPERTS),
    "qwen2": Row("Qwen2ForCausalLM", "Qwen2Config", GROUPED),
    "qwen2_moe": Row(
        "Qwen2MoeForCausalLM",
        "Qwen2MoeConfig",
        GROUPED
        | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
        | {"shared_expert_intermediate_size": 32, "output_router_logits": True},
    ),
    "qwen3": Row("Qwen3ForCausalLM", "Qwen3Config", GROUPED | {"head_dim": 8}),
    "gemma": Row("GemmaForCausalLM", "GemmaConfig", GROUPED | {"head_dim": 8}),
    "gemma2": Row(
        "Gemma2ForCausalLM", "Gemma2Config", GROUPED | {"head_dim": 8, "sliding_window": 8}
    ),
    "phi": Row("PhiForCausalLM", "PhiConfig", CAUSAL),
    "phi3": Row("Phi3ForCausalLM", "Phi3Config", GROUPED),
    "falcon": Row(
        "FalconForCausalLM",
        "FalconConfig",
        IDS | WIDTH | {"vocab_size": WORDS, "hidden_dropout": 0.0, "attention_dropout": 0.0},
    ),
    "opt": Row(
        "OPTForCausalLM",
        "OPTConfig",
        CAUSAL | {"ffn_dim": 64, "word_embed_proj_dim": 32, "dropout": 0.0},
    ),
    "bloom": Row(
        "BloomForCausalLM",
        "BloomConfig",
        IDS
        | {"vocab_size": WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4}
        | {"hidden_dropout": 0.0, "attention_dropout": 0.0},
    ),
    "gpt_neo": Row(
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        IDS
        | {"vocab_size": WORDS, "hidden_size": 32, "num_layers": 2, "num_heads": 4}
        | {"attention_types": [[["global", "local"], 1]], "window_size": 4}
        | {"embed_dropout": 0.0, "resid_dropout": 0.0, "attention_dropout": 0.0}
        | PLACES,
    ),
    "gpt_neox": Row(
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        CAUSAL | {"hidden_dropout": 0.0, "attention_dropout": 0.0},
    ),
    "gptj": Row(
        "GPTJForCausalLM",
        "GPTJConfig",
        IDS
        | {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
        | {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "rotary_dim": 4},
    ),
    "mpt": Row(
        "MptForCausalLM",
        "MptConfig",
        IDS | {"vocab_size": WORDS, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64},
    ),
    "olmo": Row("OlmoForCausalLM", "OlmoConfig", GROUPED),
    "stablelm": Row("StableLmForCausalLM", "StableLmConfig", GROUPED),
    "mamba": Row(
        "MambaForCausalLM",
        "MambaConfig",
        IDS
        | {"vocab_size": WORDS, "hidden_size": 32, "state_size": 8, "num_hidden_layers": 2}
        | {"expand": 2, "time_step_rank": 4},
    ),
    "mamba2": Row(
        "Mamba2ForCausalLM",
        "Mamba2Config",
        IDS
        | {"vocab_size": WORDS, "hidden_size": 32, "state_size": 8, "num_hidden_layers": 2}
        | {"expand": 2, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8},
    ),
    "rwkv": Row(
        "RwkvForCausalLM",
        "RwkvConfig",
        IDS | {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2},
    ),
    # ---- words, all at once
    "bert": Row("BertForMaskedLM", "BertConfig", ENCODER),
    "roberta": Row("RobertaForMaskedLM", "RobertaConfig", ENCODER),
    "distilbert": Row(
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        {"vocab_size": WORDS, "dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4}
        | {"max_position_embeddings": 64, "dropout": 0.0, "attention_dropout": 0.0},
    ),
    "albert": Row("AlbertForMaskedLM", "AlbertConfig", ENCODER | {"embedding_size": 16}),
    "electra": Row("ElectraForMaskedLM", "ElectraConfig", ENCODER | {"embedding_size": 16}),
    "deberta_v2": Row(
        "DebertaV2ForMaskedLM",
        "DebertaV2Config",
        ENCODER | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    ),
    "mobilebert": Row(
        "MobileBertForMaskedLM",
        "MobileBertConfig",
        ENCODER | {"embedding_size": 32, "intra_bottleneck_size": 16, "hidden_size": 64},
    ),
    "squeezebert": Row(
        "SqueezeBertForMaskedLM", "SqueezeBertConfig", ENCODER | {"embedding_size": 32}
    ),
    "xlnet": Row(
        "XLNetLMHeadModel",
        "XLNetConfig",
        IDS
        | {"vocab_size": WORDS, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}
        | {"dropout": 0.0},
    ),
    "funnel": Row(
        "FunnelForMaskedLM",
        "FunnelConfig",
        {"vocab_size": WORDS, "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64}
        | {"block_sizes": [1, 1], "num_decoder_layers": 1, "hidden_dropout": 0.0}
        | {"attention_dropout": 0.0, "activation_dropout": 0.0},
    ),
    "fnet": Row(
        "FNetForMaskedLM", "FNetConfig", ENCODER, lambda: {"input_ids": words(), "labels": words()}
    ),
    "longformer": Row(
        "LongformerForMaskedLM", "LongformerConfig", ENCODER | {"attention_window": 8}, long_text
    ),
    "big_bird": Row(
        "BigBirdForMaskedLM", "BigBirdConfig", ENCODER | {"attention_type": "original_full"}
    ),
    "mpnet": Row("MPNetForQuestionAnswering", "MPNetConfig", ENCODER, spans),
    # ---- words to words
    "t5": Row(
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2}
        | {"num_heads": 4, "dropout_rate": 0.0, "pad_token_id": 0, "eos_token_id": 2}
        | {"decoder_start_token_id": 0},
    ),
    "bart": Row("BartForConditionalGeneration", "BartConfig", DECODER),
    "mbart": Row("MBartForConditionalGeneration", "MBartConfig", DECODER),
    "pegasus": Row("PegasusForConditionalGeneration", "PegasusConfig", DECODER),
    "marian": Row("MarianMTModel", "MarianConfig", DECODER),
    "blenderbot": Row("BlenderbotForConditionalGeneration", "BlenderbotConfig", DECODER),
    # ---- pictures
    "vit": Row("ViTForImageClassification", "ViTConfig", VISION, picture),
    "deit": Row("DeiTForImageClassification", "DeiTConfig", VISION, picture),
    "beit": Row(
        "BeitForImageClassification", "BeitConfig", VISION | {"drop_path_rate": 0.0}, picture
    ),
    "dinov2": Row("Dinov2ForImageClassification", "Dinov2Config", VISION, picture),
    "swin": Row(
        "SwinForImageClassification",
        "SwinConfig",
        {"image_size": SIZE, "patch_size": 2, "embed_dim": 16, "depths": [2, 2]}
        | {"num_heads": [2, 4], "window_size": 4, "num_labels": 5, "drop_path_rate": 0.0},
        picture,
    ),
    "convnext": Row(
        "ConvNextForImageClassification",
        "ConvNextConfig",
        {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "num_labels": 5},
        picture,
    ),
    "resnet": Row(
        "ResNetForImageClassification",
        "ResNetConfig",
        RESNET | {"num_labels": 5},
        picture,
    ),
    "mobilenet_v2": Row(
        "MobileNetV2ForImageClassification",
        "MobileNetV2Config",
        {"depth_multiplier": 0.25, "num_labels": 5, "classifier_dropout_prob": 0.0}
        | {"output_stride": 8},
        picture,
        double=True,
    ),
    "efficientnet": Row(
        "EfficientNetForImageClassification",
        "EfficientNetConfig",
        {"width_coefficient": 0.25, "in_channels": [32, 16], "out_channels": [16, 24]}
        | {"kernel_sizes": [3, 5], "strides": [1, 2], "num_block_repeats": [1, 1]}
        | {"expand_ratios": [1, 6], "hidden_dim": 320, "num_labels": 5, "dropout_rate": 0.0}
        | {"drop_connect_rate": 0.0, "depthwise_padding": [], "initializer_range": 0.3},
        picture,
    ),
    "segformer": Row(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        DRY
        | {"hidden_sizes": [8, 16], "depths": [1, 1], "num_encoder_blocks": 2, "num_labels": 5}
        | {"num_attention_heads": [1, 2], "sr_ratios": [2, 1], "patch_sizes": [7, 3]}
        | {"strides": [4, 2], "mlp_ratios": [2, 2], "decoder_hidden_size": 16}
        | {"classifier_dropout_prob": 0.0, "drop_path_rate": 0.0},
        segments,
    ),
    "detr": Row(
        "DetrForObjectDetection",
        "DetrConfig",
        BOTH
        | {"num_queries": 5, "num_labels": 4, "use_timm_backbone": False, "backbone": None}
        | {"backbone_config": {"model_type": "resnet", "out_features": ["stage2"]} | RESNET},
        boxes,
    ),
    "vit_mae": Row(
        "ViTMAEForPreTraining",
        "ViTMAEConfig",
        VISION
        | {"decoder_hidden_size": 32, "decoder_num_hidden_layers": 1}
        | {"decoder_num_attention_heads": 4, "decoder_intermediate_size": 64},
        masked_pictures,
        "the noise that hides patches is given",
    ),
    "videomae": Row(
        "VideoMAEForPreTraining",
        "VideoMAEConfig",
        VISION
        | {"num_frames": 4, "decoder_hidden_size": 32, "decoder_num_hidden_layers": 1}
        | {"decoder_num_attention_heads": 4, "decoder_intermediate_size": 64},
        video,
    ),
    # ---- pictures and words
    "clip": Row("CLIPModel", "CLIPConfig", TOWERS | {"projection_dim": 16}, pairs),
    "siglip": Row("SiglipModel", "SiglipConfig", TOWERS, pairs),
    "blip": Row(
        "BlipForConditionalGeneration",
        "BlipConfig",
        TOWERS | {"text_config": ENCODER | {"encoder_hidden_size": 32}},
        lambda: captioned() | {"labels": words()},
    ),
    # ---- sound and series
    "wav2vec2": Row("Wav2Vec2ForCTC", "Wav2Vec2Config", SOUND, waves, MASKED),
    "hubert": Row("HubertForCTC", "HubertConfig", SOUND, waves, MASKED),
    "sew": Row("SEWForCTC", "SEWConfig", SOUND | {"squeeze_factor": 2}, waves, MASKED),
    "wavlm": Row("WavLMForCTC", "WavLMConfig", SOUND, waves, MASKED),
    "whisper": Row(
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        IDS
        | BOTH
        | {"vocab_size": WORDS, "max_source_positions": 30, "max_target_positions": 32}
        | {"num_mel_bins": 16, "decoder_start_token_id": 3}
        | {"begin_suppress_tokens": None, "suppress_tokens": None},
        spectra,
    ),
    "time_series": Row(
        "TimeSeriesTransformerForPrediction",
        "TimeSeriesTransformerConfig",
        BOTH
        | {"prediction_length": 4, "context_length": 10, "num_time_features": 1}
        | {"attention_dropout": 0.0, "activation_dropout": 0.0},
        series,
    ),
    "patchtst": Row(
        "PatchTSTForPrediction",
        "PatchTSTConfig",
        {"num_input_channels": 2, "context_length": 16, "patch_length": 4, "patch_stride": 4}
        | {"prediction_length": 4, "d_model": 32, "ffn_dim": 64, "num_hidden_layers": 2}
        | {"num_attention_heads": 4, "ff_dropout": 0.0, "head_dropout": 0.0, "loss": "mse"},
        lambda: {"past_values": noise(2, 16, 2), "future_values": noise(2, 4, 2)},
    ),
}
GENERATE = ["gpt2", "llama", "mistral", "qwen2", "gemma", "phi", "falcon", "mixtral", "mamba"]
GENERATE += ["t5", "bart", "whisper"]
